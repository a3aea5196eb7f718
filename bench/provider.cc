// What does a breaker cost, and what does it bring? bench/README.md tells the method. `--plot` draws the simulation.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cohort/provider/breaker.h"
#include "cohort/provider/router.h"
#include "harness.h"
#include "provider_cases.h"
#include "provider_simulation.h"

namespace {

using cohort::Breaker;
using cohort::FailureType;
using cohort::Permit;
using cohort::bench::Series;
using cohort::bench::Suite;
using SteadyClock = std::chrono::steady_clock;

constexpr int kCalls = 2'000'000;
constexpr std::uint64_t kSeeds = 100;

template <class Call>
double ns_per_call(Call&& call, int calls = kCalls) {
  const auto start = SteadyClock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(SteadyClock::now() - start).count() / calls;
}

// So that what is not used is done all the same.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

double two_clock_reads() {
  return ns_per_call([] {
    keep(SteadyClock::now());
    keep(SteadyClock::now());
  });
}

double allow_and_succeed() {
  Breaker breaker;
  return ns_per_call([&] {
    Permit permit = breaker.allow();
    permit.success();
  });
}

// Nanoseconds per call of each of two threads.
double two_threads() {
  Breaker breaker;
  std::atomic<int> ready{0};
  double took[2] = {0, 0};
  std::vector<std::thread> threads;
  for (double& own : took) {
    threads.emplace_back([&] {
      ++ready;
      while (ready < 2) {
      }
      own = ns_per_call([&] {
        Permit permit = breaker.allow();
        permit.success();
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return (took[0] + took[1]) / 2;
}

double rejected() {
  Breaker breaker;
  for (int i = 0; i < 5; ++i) breaker.allow().failure(FailureType::kConnect);
  return ns_per_call([&] { keep(breaker.allow()); });
}

double select_of_8() {
  std::vector<cohort::ProviderOptions> providers;
  for (int i = 0; i < 8; ++i) providers.push_back({.name = std::to_string(i)});
  const auto router = cohort::Router::make(providers).value();
  for (int i = 0; i < 1000; ++i) {
    for (int p = 0; p < 8; ++p)
      router->provider(static_cast<std::size_t>(p)).score().record(i % (p + 2) != 0, std::chrono::milliseconds(5));
  }
  return ns_per_call([&] { keep(router->select()); }, kCalls / 10);
}

double median_of_seeds(const std::function<double(const Series&)>& of, Series (*simulate)(std::uint64_t)) {
  std::vector<double> values;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) values.push_back(of(simulate(seed)));
  return Suite::median(values);
}
double not_good(const Series& series) { return series.not_good(); }
double wasted(const Series& series) { return series.all_wasted(); }

// ---- the drawing

constexpr double kWidth = 900;
constexpr double kHeight = 200;

void draw_line(std::ofstream& out, const std::vector<double>& values, double most, double top, const char* colour) {
  out << "<polyline fill='none' stroke='" << colour << "' stroke-width='1.5' points='";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out << 60 + kWidth * static_cast<double>(i) / static_cast<double>(values.size() - 1) << ','
        << top + kHeight * (1 - values[i] / most) << ' ';
  }
  out << "'/>\n";
}

void plot(const char* path) {
  struct Way {
    const char* name;
    const char* colour;
    Series series;
  };
  const Way ways[] = {{"round robin", "#999999", cohort::bench::round_robin(1)},
                      {"starting point", "#d08020", cohort::bench::starting_point(1)},
                      {"Cohort", "#2060c0", cohort::bench::ours(1)}};
  std::ofstream out(path);
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='1000' height='560' font-family='sans-serif' font-size='13'>\n"
      << "<rect width='1000' height='560' fill='white'/>\n";
  const auto panel = [&](double top, const char* title, double most, auto&& values) {
    out << "<text x='60' y='" << top - 10 << "'>" << title << "</text>\n";
    out << "<rect x='60' y='" << top << "' width='" << kWidth << "' height='" << kHeight
        << "' fill='none' stroke='#cccccc'/>\n";
    for (int i = 0; i <= 4; ++i) {
      out << "<text x='50' text-anchor='end' y='" << top + kHeight * (1 - i / 4.0) + 4 << "'>" << most * i / 4
          << "</text>\n";
    }
    for (const Way& way : ways) draw_line(out, values(way.series), most, top, way.colour);
  };
  // Means over ten seconds, so that one can see something.
  const auto smooth = [](const std::vector<double>& values) {
    std::vector<double> means;
    for (std::size_t i = 0; i + 10 <= values.size(); i += 10) {
      double sum = 0;
      for (std::size_t j = i; j < i + 10; ++j) sum += values[j];
      means.push_back(sum / 10);
    }
    return means;
  };
  panel(50, "good answers within 1 s, % of requests", 100, [&](const Series& series) {
    std::vector<double> values;
    for (std::size_t i = 0; i < series.good.size(); ++i)
      values.push_back(100.0 * series.good[i] / std::max(series.requests[i], 1));
    return smooth(values);
  });
  panel(310, "calls a second sent to a provider in a bad phase", 100, [&](const Series& series) {
    std::vector<double> values(series.wasted.begin(), series.wasted.end());
    for (double& value : values) value = std::min(value, 100.0);
    return smooth(values);
  });
  for (int minute = 0; minute <= 10; ++minute) {
    out << "<text text-anchor='middle' x='" << 60 + kWidth * minute / 10 << "' y='530'>" << minute << " min</text>\n";
  }
  double x = 560;
  for (const Way& way : ways) {
    out << "<text x='" << x << "' y='40' fill='" << way.colour << "'>" << way.name << "</text>\n";
    x += 130;
  }
  out << "</svg>\n";
  std::printf("drawn: %s\n", path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--plot") == 0) {
    plot(argc > 2 ? argv[2] : "build/bench/provider.svg");
    return 0;
  }
  using cohort::bench::ours;
  using cohort::bench::round_robin;
  using cohort::bench::starting_point;
  Suite suite("provider");
  suite.measure("clock", "two reads", "ns", two_clock_reads);
  suite.measure("clock", "one read", "ns", [] { return two_clock_reads() / 2; });
  suite.measure("breaker", "allow + success", "ns", allow_and_succeed);
  suite.measure("breaker", "two threads", "ns", two_threads);
  suite.measure("breaker", "open", "ns", rejected);
  suite.measure("router", "select of 8", "ns", select_of_8);
  suite.measure(
      "not good", "round robin", "requests", [] { return median_of_seeds(not_good, round_robin); }, 1);
  suite.measure(
      "not good", "starting point", "requests", [] { return median_of_seeds(not_good, starting_point); }, 1);
  suite.measure(
      "not good", "cohort", "requests", [] { return median_of_seeds(not_good, ours); }, 1);
  suite.measure(
      "wasted", "round robin", "calls", [] { return median_of_seeds(wasted, round_robin); }, 1);
  suite.measure(
      "wasted", "starting point", "calls", [] { return median_of_seeds(wasted, starting_point); }, 1);
  suite.measure(
      "wasted", "cohort", "calls", [] { return median_of_seeds(wasted, ours); }, 1);

  using namespace std::chrono_literals;
  namespace cases = cohort::bench;
  const auto one_figure = [&](const char* key, const char* who, const char* unit, std::function<double()> run,
                              Suite::Bar bar) {
    suite.measure("cases", who, unit, std::move(run), 1);
    suite.figure(
        key, "cases",
        [who = std::string(who)](const Suite::Values& values) {
          return values.at({"cases", who}).front();
        },
        bar);
  };
  one_figure(
      "recovered_alone_1_a_minute", "recovered, alone, 1/min", "not sent",
      [] { return cases::not_sent_to_recovered(1, 1.0 / 60); }, Suite::at_most(0, 0));
  one_figure(
      "recovered_of_five_1_a_second", "recovered, of five, 1/s", "not sent",
      [] { return cases::not_sent_to_recovered(5, 1); }, Suite::at_most(0, 0));
  one_figure(
      "recovered_of_five_1_a_minute", "recovered, of five, 1/min", "not sent",
      [] { return cases::not_sent_to_recovered(5, 1.0 / 60); }, Suite::at_most(0, 0));
  one_figure(
      "recovered_of_five_100_a_second", "recovered, of five, 100/s", "not sent",
      [] { return cases::not_sent_to_recovered_at_once(100); }, Suite::at_most(0, 0));
  one_figure(
      "flapping_open_1_a_second", "flapping, 1/s", "part of time", [] { return cases::open_while_flapping(1); },
      Suite::at_least(0.5, 0.5));
  one_figure(
      "flapping_open_1_a_minute", "flapping, 1/min", "part of time",
      [] { return cases::open_while_flapping(1.0 / 60); }, Suite::at_least(0.5, 0.5));
  one_figure(
      "timeouts_to_open", "hung, patient callers", "requests", [] { return cases::timeouts_to_open(10s); },
      Suite::at_most(5, 5));
  one_figure(
      "cut_off_to_open", "hung, impatient callers", "requests", [] { return cases::timeouts_to_open(200ms); },
      Suite::at_most(10, 10));
  one_figure("opened_by_poison", "poison", "times", cases::opened_by_poison, Suite::at_most(0, 0));
  one_figure("outage_to_open_s", "outage", "s", cases::outage_to_open, Suite::at_most(10, 10));

  suite.ratio("breaker_vs_two_clock_reads", {"breaker", "allow + success"}, {"clock", "two reads"},
              Suite::at_most(2.0, 1.3));
  suite.ratio("breaker_2threads_vs_1", {"breaker", "two threads"}, {"breaker", "allow + success"},
              Suite::at_most(3, 3));
  suite.ratio("open_reject_vs_clock_read", {"breaker", "open"}, {"clock", "one read"}, Suite::at_most(2, 2));
  suite.ratio("select_8_providers_vs_clock_read", {"router", "select of 8"}, {"clock", "one read"},
              Suite::at_most(12, 12));
  suite.ratio("slow_answers_gain", {"not good", "starting point"}, {"not good", "cohort"}, Suite::at_least(2, 2));
  suite.ratio("wasted_calls_gain", {"wasted", "starting point"}, {"wasted", "cohort"}, Suite::at_least(3, 3));
  return suite.run(argc, argv);
}
