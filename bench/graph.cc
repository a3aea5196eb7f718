// What a graph costs beside oneTBB's flow graph, and what isolation brings when one upstream becomes slow.

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "graph_experiment.h"
#include "graph_upstream.h"
#include "harness.h"

namespace {

using namespace cohort;
using namespace cohort::bench;
namespace flow = oneapi::tbb::flow;

constexpr std::uint32_t kConcurrency = 4;  // Of each node, ours and theirs.
constexpr int kInFlight = 256;
constexpr int kPiped = 200'000;
constexpr int kOneByOne = 100'000;

double ns_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// ---- ours: A, B -> C(A, B), D(B) -> E(C, D)

enum class Nodes { kPlain, kLightweight };

struct Ours {
  explicit Ours(Nodes nodes) : executor({.threads = std::max(2U, std::thread::hardware_concurrency())}) {
    GraphBuilder<int> builder;
    auto a = builder.node("A", [](int x) { return x; }).concurrency(kConcurrency);
    auto b = builder.node("B", [](int x) { return x; }).concurrency(kConcurrency);
    auto c = builder
                 .node(
                     "C", [](const int& x, const int& y) { return x + y; }, a, b)
                 .concurrency(kConcurrency);
    auto d = builder
                 .node(
                     "D", [](const int& x) { return x; }, b)
                 .concurrency(kConcurrency);
    auto e = builder
                 .node(
                     "E", [](const int& x, const int& y) { return x + y; }, c, d)
                 .concurrency(kConcurrency);
    if (nodes == Nodes::kLightweight) {
      for (auto* node : {&a, &b, &c, &d, &e}) node->lightweight();
    }
    end.push_back(e.output());
    graph = std::make_unique<Graph<int>>(std::move(*builder.build(executor)));
    for (int i = 0; i < 200; ++i) static_cast<void>(graph->run(i));
  }

  // Every node has taken a permit of its group, and given it back.
  void check_permits() {
    static_cast<void>(executor.shutdown(std::chrono::seconds(10)));
    for (const char* group : {"A", "B", "C", "D", "E"}) {
      const GroupStats stats = *executor.group_stats(group);
      if (stats.counters.started >= graph->stats().runs && stats.running == 0) continue;
      std::printf("group %s: %lu started of %lu runs, %u running\n", group, stats.counters.started, graph->stats().runs,
                  stats.running);
      std::abort();
    }
  }

  GroupExecutor executor;
  std::vector<GraphNode<int, int>> end;
  std::unique_ptr<Graph<int>> graph;
};

// While a node runs, its group has a permit out: asked from inside.
void check_permits_from_inside(Nodes nodes) {
  GroupExecutor executor;
  GraphBuilder<int> builder;
  std::atomic<bool> look{false};
  const auto body = [&](const char* group) {
    if (look && executor.group_stats(group)->running == 0) std::abort();
    return 1;
  };
  auto a = builder.node("A", [&](int) { return body("A"); });
  auto b = builder
               .node(
                   "B", [&](const int&) { return body("B"); }, a)
               .output();
  if (nodes == Nodes::kLightweight) {
    a.lightweight();
    b.lightweight();
  }
  auto graph = std::move(*builder.build(executor));
  for (int i = 0; i < 200; ++i) static_cast<void>(graph.run(i));
  look = true;
  for (int i = 0; i < 200; ++i) {
    if (!graph.run(i).complete()) std::abort();
  }
  static_cast<void>(b);
}

double ours_piped(Nodes nodes) {
  check_permits_from_inside(nodes);
  Ours ours(nodes);
  long sum = 0;
  std::vector<TaskHandle<GraphRun>> runs;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kPiped; i += kInFlight) {
    runs.clear();
    for (int k = 0; k < kInFlight; ++k) runs.push_back(ours.graph->start(k));
    for (const auto& run : runs) {
      const GraphRun ended = *run.await().value;
      sum += ended.outcome(ours.end[0]) == Outcome::kOk ? ended[ours.end[0]] : 0;
    }
  }
  const double ns = ns_since(start) / kPiped;
  if (sum == 0) std::abort();
  ours.check_permits();
  return ns;
}

double ours_one_by_one(Nodes nodes) {
  check_permits_from_inside(nodes);
  Ours ours(nodes);
  long sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kOneByOne; ++i) {
    const GraphRun run = ours.graph->run(i);
    sum += run.outcome(ours.end[0]) == Outcome::kOk ? run[ours.end[0]] : 0;
  }
  const double ns = ns_since(start) / kOneByOne;
  if (sum == 0) std::abort();
  ours.check_permits();
  return ns;
}

// ---- theirs

struct Message {
  std::array<int, 5> value{};
  std::array<bool, 5> ok{};
};

// One graph for all requests, as ours: nodes with a limited concurrency, joined by request.
class Theirs {
 public:
  Theirs()
      : in(graph),
        a(graph, kConcurrency, [](Message* m) { return set(m, 0, 1); }),
        b(graph, kConcurrency, [](Message* m) { return set(m, 1, 1); }),
        both_c(graph, key, key),
        both_e(graph, key, key),
        c(graph, kConcurrency,
          [](const Pair& p) { return set(std::get<0>(p), 2, std::get<0>(p)->value[0] + std::get<0>(p)->value[1]); }),
        d(graph, kConcurrency, [](Message* m) { return set(m, 3, m->value[1]); }),
        e(graph, kConcurrency, [](const Pair& p) {
          set(std::get<0>(p), 4, std::get<0>(p)->value[2] + std::get<0>(p)->value[3]);
          return flow::continue_msg();
        }) {
    flow::make_edge(in, a);
    flow::make_edge(in, b);
    flow::make_edge(a, flow::input_port<0>(both_c));
    flow::make_edge(b, flow::input_port<1>(both_c));
    flow::make_edge(both_c, c);
    flow::make_edge(b, d);
    flow::make_edge(c, flow::input_port<0>(both_e));
    flow::make_edge(d, flow::input_port<1>(both_e));
    flow::make_edge(both_e, e);
  }
  void start(Message& message) { in.try_put(&message); }
  void wait() { graph.wait_for_all(); }

 private:
  using Pair = std::tuple<Message*, Message*>;
  using Join = flow::join_node<Pair, flow::key_matching<std::uintptr_t>>;
  static std::uintptr_t key(Message* message) { return reinterpret_cast<std::uintptr_t>(message); }
  static Message* set(Message* message, std::size_t place, int value) {
    message->value[place] = value;  // NOLINT(clang-analyzer-core.CallAndMessage): a join has both.
    message->ok[place] = true;
    return message;
  }

  flow::graph graph;
  flow::broadcast_node<Message*> in;
  flow::function_node<Message*, Message*> a, b;
  Join both_c, both_e;
  flow::function_node<Pair, Message*> c;
  flow::function_node<Message*, Message*> d;
  flow::function_node<Pair, flow::continue_msg> e;
};

double theirs_piped() {
  Theirs theirs;
  std::vector<Message> messages(kInFlight);
  long sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kPiped; i += kInFlight) {
    for (Message& message : messages) theirs.start(message);
    theirs.wait();
    for (Message& message : messages) sum += message.ok[4] ? message.value[4] : 0;
  }
  const double ns = ns_since(start) / kPiped;
  if (sum == 0) std::abort();
  return ns;
}

double theirs_one_by_one() {
  Theirs theirs;
  Message message;
  long sum = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kOneByOne; ++i) {
    theirs.start(message);
    theirs.wait();
    sum += message.ok[4] ? message.value[4] : 0;
  }
  const double ns = ns_since(start) / kOneByOne;
  if (sum == 0) std::abort();
  return ns;
}

// For comparison: continue_nodes, which know neither limits nor requests, so that each request in flight has a graph of
// its own.
double continue_nodes(int in_flight, int total) {
  using Continue = flow::continue_node<flow::continue_msg>;
  flow::graph graph;
  struct Copy {
    Message message;
    std::unique_ptr<flow::broadcast_node<flow::continue_msg>> in;
    std::array<std::unique_ptr<Continue>, 5> nodes;
  };
  std::vector<Copy> copies(static_cast<std::size_t>(in_flight));
  for (Copy& copy : copies) {
    copy.in = std::make_unique<flow::broadcast_node<flow::continue_msg>>(graph);
    for (std::size_t i = 0; i < 5; ++i) {
      copy.nodes[i] = std::make_unique<Continue>(graph, [&copy, i](const flow::continue_msg& message) {
        copy.message.ok[i] = true;
        return message;
      });
    }
    const auto& n = copy.nodes;
    flow::make_edge(*copy.in, *n[0]);
    flow::make_edge(*copy.in, *n[1]);
    flow::make_edge(*n[0], *n[2]);
    flow::make_edge(*n[1], *n[2]);
    flow::make_edge(*n[1], *n[3]);
    flow::make_edge(*n[2], *n[4]);
    flow::make_edge(*n[3], *n[4]);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < total; i += in_flight) {
    for (Copy& copy : copies) copy.in->try_put(flow::continue_msg());
    graph.wait_for_all();
  }
  return ns_since(start) / total;
}

// ---- the experiment

double lost(Way way) { return in_virtual_time(way, {}).without_b_or_d(); }

double lost_in_real_time(Way way) { return in_real_time(way, {.requests = 5'000}).without_b_or_d(); }

// ---- the drawing

constexpr double kWidth = 420;
constexpr double kHeight = 130;

std::vector<double> by_second(const Answers& answers,
                              const std::function<double(const std::vector<std::size_t>&)>& value) {
  std::vector<std::vector<std::size_t>> seconds;
  for (std::size_t i = 0; i < answers.begun.size(); ++i) {
    const auto second =
        static_cast<std::size_t>(std::chrono::duration_cast<std::chrono::seconds>(answers.begun[i]).count());
    if (seconds.size() <= second) seconds.resize(second + 1);
    seconds[second].push_back(i);
  }
  std::vector<double> values;
  for (const auto& each : seconds) values.push_back(each.empty() ? 0 : value(each));
  return values;
}

void draw_line(std::ofstream& out, const std::vector<double>& values, double most, double left, double top,
               const char* colour) {
  out << "<polyline fill='none' stroke='" << colour << "' stroke-width='1.6' points='";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out << left + kWidth * static_cast<double>(i) / static_cast<double>(values.size() - 1) << ','
        << top + kHeight * (1 - std::min(values[i] / most, 1.0)) << ' ';
  }
  out << "'/>\n";
}

void frame(std::ofstream& out, double left, double top, const std::string& title, const char* least, const char* most) {
  out << "<text x='" << left << "' y='" << top - 8 << "'>" << title << "</text>\n<rect x='" << left << "' y='" << top
      << "' width='" << kWidth << "' height='" << kHeight << "' fill='none' stroke='#cccccc'/>\n<text x='" << left - 6
      << "' y='" << top + 10 << "' text-anchor='end'>" << most << "</text>\n<text x='" << left - 6 << "' y='"
      << top + kHeight << "' text-anchor='end'>" << least << "</text>\n";
}

void plot(const char* path) {
  constexpr std::array<const char*, kCalls> kColours = {"#c0392b", "#2060c0", "#d08020", "#20a0a0", "#2e8b57"};
  std::ofstream out(path);
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='1010' height='800' font-family='sans-serif' font-size='12'>\n"
      << "<rect width='1010' height='800' fill='white'/>\n";
  double top = 60;
  for (const Way way : kWays) {
    const Answers answers = in_virtual_time(way, {});
    frame(out, 60, top, std::string(name_of(way)) + ": calls that succeeded, %", "0", "100");
    for (std::size_t call = 0; call < kCalls; ++call) {
      draw_line(out,
                by_second(answers,
                          [&](const std::vector<std::size_t>& each) {
                            const auto good =
                                std::ranges::count_if(each, [&](std::size_t i) { return answers.delivered[i][call]; });
                            return 100.0 * static_cast<double>(good) / static_cast<double>(each.size());
                          }),
                100, 60, top, kColours[call]);
    }
    frame(out, 560, top, "p99 of the page, ms", "0", "800");
    draw_line(out,
              by_second(answers,
                        [&](const std::vector<std::size_t>& each) {
                          std::vector<double> ms;
                          for (const std::size_t i : each)
                            ms.push_back(std::chrono::duration<double, std::milli>(answers.duration[i]).count());
                          std::ranges::sort(ms);
                          return ms[ms.size() * 99 / 100];
                        }),
              800, 560, top, "#444444");
    top += 185;
  }
  for (std::size_t call = 0; call < kCalls; ++call) {
    out << "<text x='" << 60 + 40 * call << "' y='25' fill='" << kColours[call] << "'>" << kCallNames[call]
        << "</text>\n";
  }
  out << "<text x='280' y='25'>over 29 s; A becomes slow from second 5 to 10 and recovers from 19 to "
         "24</text>\n</svg>\n";
  std::printf("drawn: %s\n", path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--plot") == 0) {
    plot(argc > 2 ? argv[2] : "build/bench/graph.svg");
    return 0;
  }
  oneapi::tbb::global_control cores(oneapi::tbb::global_control::max_allowed_parallelism,
                                    std::max(2U, std::thread::hardware_concurrency()));
  Suite suite("graph");
  suite.measure("piped", "cohort", "ns/graph", [] { return ours_piped(Nodes::kPlain); });
  suite.measure("piped", "cohort lightweight", "ns/graph", [] { return ours_piped(Nodes::kLightweight); });
  suite.measure("piped", "tbb", "ns/graph", theirs_piped);
  suite.measure("piped", "tbb continue_node", "ns/graph", [] { return continue_nodes(kInFlight, kPiped); });
  suite.measure("run and wait", "cohort", "ns/graph", [] { return ours_one_by_one(Nodes::kPlain); });
  suite.measure("run and wait", "cohort lightweight", "ns/graph", [] { return ours_one_by_one(Nodes::kLightweight); });
  suite.measure("run and wait", "tbb", "ns/graph", theirs_one_by_one);
  suite.measure("run and wait", "tbb continue_node", "ns/graph", [] { return continue_nodes(1, kOneByOne); });
  for (const Way way : kWays) {
    suite.measure(
        "without B or D of 20,000", name_of(way), "requests", [way] { return lost(way); }, 1);
  }
  for (const Way way : {Way::kShared, Way::kByDemand}) {
    suite.measure(
        "real time, of 5,000", name_of(way), "requests", [way] { return lost_in_real_time(way); }, 1);
  }
  suite.measure("upstream", "cohort", "us of CPU", upstream_ours);
  suite.measure("upstream", "by hand", "us of CPU", upstream_by_hand);
  suite.ratio("upstream_cpu_vs_handwritten", {"upstream", "cohort"}, {"upstream", "by hand"}, Suite::at_most(2.5, 1.5));
  suite.ratio("lightweight_vs_tbb_flow", {"piped", "cohort lightweight"}, {"piped", "tbb"}, Suite::at_most(1.0, 1.0));
  suite.ratio("piped_vs_tbb_flow", {"piped", "cohort"}, {"piped", "tbb"}, Suite::at_most(3.0, 3.0));
  suite.ratio("run_wait_vs_tbb", {"run and wait", "cohort lightweight"}, {"run and wait", "tbb"},
              Suite::at_most(1.0, 1.0));
  const auto value = [](const Suite::Values& values, Way way) {
    return values.at({"without B or D of 20,000", name_of(way)}).front();
  };
  suite.figure(
      "availability", "without B or D of 20,000",
      [value](const Suite::Values& values) { return 1 - value(values, Way::kByDemand) / 20'000; },
      Suite::at_least(0.9996, 1));
  suite.figure(
      "isolation_gain", "without B or D of 20,000",
      [value](const Suite::Values& values) {
        return value(values, Way::kShared) / std::max(1.0, value(values, Way::kByDemand));
      },
      Suite::at_least(50, 50));
  return suite.run(argc, argv);
}
