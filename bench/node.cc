// What does HTTP cost on top of a durable submit; what do a thousand idle connections, clients that scan a million
// rows, a node with much memory and the log cost? bench/README.md tells the method.

#include "cohort/node/node.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/plugin/exec_plugin.h"
#include "harness.h"
#include "node/node_log.h"

namespace {

using namespace std::chrono_literals;
using namespace cohort;
using bench::Suite;
using Steady = std::chrono::steady_clock;

constexpr int kConnections = 64;
constexpr int kTasks = 20'000;
constexpr int kIdle = 1000;
constexpr int kAsked = 4000;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

/// A node whose tasks wait: only taking them in is measured.
struct World {
  World() {
    const rlimit files{.rlim_cur = 8192, .rlim_max = 8192};
    setrlimit(RLIMIT_NOFILE, &files);
    std::string name = (std::filesystem::current_path() / "build/bench/store-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("no folder for the store");
    folder = name;
    NodeConfig config;
    config.store.sqlite.folder = folder;
    config.admin.port = 0;
    auto started = Node::start(config);
    if (!started) fail(started.error().message);
    node = *std::move(started);
    if (!node->chains().pause_group("g").await().ok()) fail("the group was not paused");
  }
  ~World() {
    node.reset();
    std::filesystem::remove_all(folder);
  }
  std::filesystem::path folder;
  std::unique_ptr<Node> node;
};

const std::string kBody =
    R"({"group":"g","payload":{"customer":4711,"file":"upload-4711.bin"},"steps":[{"plugin":"sha256"}]})";

NewTask task() {
  return {.group = "g", .payload = R"({"customer":4711,"file":"upload-4711.bin"})", .steps = {{.plugin = "sha256"}}};
}

// ---- in the same process

/// So many are always under way: each that is durable is followed by the next.
class Submits {
 public:
  explicit Submits(ChainEngine& engine) : engine_(engine) {}
  double run() {
    const auto begin = Steady::now();
    for (int i = 0; i < kConnections; ++i) next();
    ended_.get_future().wait();
    return kTasks / seconds_since(begin);
  }

 private:
  void next() {
    if (begun_.fetch_add(1) >= kTasks) return;
    engine_.submit(task()).on_done([this](const TaskResult<Submitted>& result) {
      if (!result.ok()) fail(result.error->message);
      if (done_.fetch_add(1) + 1 == kTasks) return ended_.set_value();
      next();
    });
  }
  ChainEngine& engine_;
  std::atomic<int> begun_{0};
  std::atomic<int> done_{0};
  std::promise<void> ended_;
};

double library() {
  World world;
  return Submits(world.node->chains()).run();
}

// ---- over HTTP

class Connection {
 public:
  explicit Connection(std::uint16_t port) : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) fail("no connection");
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(socket); }

  void send(const std::string& text) const {
    if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) fail("not sent");
  }
  /// True when a whole answer has come, which must be a good one.
  bool receive() {
    char bytes[4096];
    const ssize_t got = ::recv(socket, bytes, sizeof(bytes), 0);
    if (got <= 0) fail("the connection ended");
    received.append(bytes, static_cast<std::size_t>(got));
    const std::size_t head = received.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t at = received.find("Content-Length: ");
    const std::size_t whole = head + 4 + (at < head ? std::strtoul(received.c_str() + at + 16, nullptr, 10) : 0);
    if (received.size() < whole) return false;
    if (received.compare(9, 1, "2") != 0) fail(received);
    received.erase(0, whole);
    return true;
  }

  int socket;
  std::string received;
};

const std::string kSubmit =
    "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
    std::to_string(kBody.size()) + "\r\n\r\n" + kBody;

double over_http() {
  World world;
  std::vector<std::unique_ptr<Connection>> connections;
  const int epoll = epoll_create1(0);
  for (int i = 0; i < kConnections; ++i) {
    connections.push_back(std::make_unique<Connection>(world.node->port()));
    epoll_event event{.events = EPOLLIN, .data = {.ptr = connections.back().get()}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, connections.back()->socket, &event);
  }
  const auto begin = Steady::now();
  int begun = 0;
  for (const auto& each : connections) {
    each->send(kSubmit);
    ++begun;
  }
  for (int done = 0; done < kTasks;) {
    epoll_event events[kConnections];
    const int count = epoll_wait(epoll, events, kConnections, -1);
    for (int i = 0; i < count; ++i) {
      auto* const connection = static_cast<Connection*>(events[i].data.ptr);
      if (!connection->receive()) continue;
      ++done;
      if (begun < kTasks) {
        connection->send(kSubmit);
        ++begun;
      }
    }
  }
  const double rate = kTasks / seconds_since(begin);
  ::close(epoll);
  return rate;
}

// ---- with others who do nothing

double p99_us(int idle) {
  World world;
  std::vector<std::unique_ptr<Connection>> others;
  const std::string look = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < idle; ++i) {
    others.push_back(std::make_unique<Connection>(world.node->port()));
    others.back()->send(look);
    while (!others.back()->receive()) {
    }
  }
  Connection connection(world.node->port());
  std::vector<double> times;
  for (int i = 0; i < kAsked; ++i) {
    const auto begin = Steady::now();
    connection.send("GET /v1/tasks?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (!connection.receive()) {
    }
    times.push_back(seconds_since(begin) * 1e6);
  }
  std::ranges::sort(times);
  return times[kAsked * 99 / 100];
}

// ---- with others who scan

constexpr int kMillion = 1'000'000;
constexpr int kScanners = 8;
constexpr int kGets = 3000;

/// A store with a million tasks that wait. It is made once, and used by all rounds.
std::filesystem::path million_rows() {
  std::filesystem::path folder = std::filesystem::current_path() / "build/bench/million";
  if (std::filesystem::exists(folder / "complete")) return folder;
  std::filesystem::remove_all(folder);
  {
    auto opened = SqliteStore::open({.folder = folder, .synchronous = SqliteOptions::Synchronous::kOff});
    if (!opened) fail(opened.error().message);
    for (int done = 0; done < kMillion;) {
      std::vector<NewTask> batch;
      for (int i = 0; i < 5000; ++i, ++done) {
        NewTask each = task();
        each.id = "t" + std::to_string(done);
        each.tags = {"batch-" + std::to_string(done / 1000)};
        each.deadline = 240h;
        batch.push_back(std::move(each));
      }
      std::promise<void> written;
      (*opened)->submit(std::move(batch), [&](const auto& answers) {
        if (!answers) fail(answers.error().message);
        written.set_value();
      });
      written.get_future().wait();
    }
    std::promise<void> paused;
    (*opened)->pause_group("g", true, [&](const Result<void>&) { paused.set_value(); });
    paused.get_future().wait();
  }
  std::fclose(std::fopen((folder / "complete").c_str(), "w"));
  return folder;
}

double get_p99_us(int scanners) {
  NodeConfig config;
  config.store.sqlite.folder = million_rows();
  config.admin.port = 0;
  auto node = Node::start(config);
  if (!node) fail(node.error().message);
  const std::uint16_t port = (*node)->port();
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < scanners; ++i) {
    threads.emplace_back([&] {
      Connection connection(port);
      while (!enough) {
        connection.send("GET /v1/tasks?tag=unknown HTTP/1.1\r\nHost: localhost\r\n\r\n");
        while (!connection.receive()) {
        }
      }
    });
  }
  Connection connection(port);
  std::vector<double> times;
  std::this_thread::sleep_for(200ms);
  for (int i = 0; i < kGets; ++i) {
    const std::string id = "t" + std::to_string((i * 7919LL) % kMillion);
    const auto begin = Steady::now();
    connection.send("GET /v1/tasks/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (!connection.receive()) {
    }
    times.push_back(seconds_since(begin) * 1e6);
  }
  enough = true;
  for (std::thread& each : threads) each.join();
  std::ranges::sort(times);
  return times[kGets * 99 / 100];
}

// ---- programs, and the log

/// Runs tasks of one step and gives how many a second.
double run_tasks(NodeConfig config, PluginRegistry plugins, int count, const ChainStep& step) {
  std::string name = (std::filesystem::current_path() / "build/bench/store-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("no folder for the store");
  config.store.sqlite.folder = name;
  config.admin.port = 0;
  auto node = Node::start(config, std::move(plugins));
  if (!node) fail(node.error().message);
  ChainEngine& chains = (*node)->chains();
  const auto begin = Steady::now();
  for (int done = 0; done < count;) {
    std::vector<NewTask> batch;
    for (int i = 0; i < 500 && done < count; ++i, ++done) {
      batch.push_back({.group = "g" + std::to_string(done % 8), .steps = {step}});
    }
    if (!chains.submit_all(std::move(batch)).await().ok()) fail("a submit failed");
  }
  while (chains.stats().completed + chains.stats().failed < static_cast<std::uint64_t>(count)) {
    std::this_thread::sleep_for(200us);
  }
  const double rate = count / seconds_since(begin);
  node->reset();
  std::filesystem::remove_all(name);
  return rate;
}

double programs_a_second(std::size_t megabytes) {
  std::vector<char> memory(megabytes << 20U);
  for (std::size_t i = 0; i < memory.size(); i += 4096) memory[i] = 1;  // Resident.
  NodeConfig config;
  config.store.sqlite.synchronous = SqliteOptions::Synchronous::kOff;  // Starting programs is measured, not the disk.
  config.exec.programs["true"] = {.path = "/bin/true", .output = ExecProgram::Output::kIgnore};
  const double rate = run_tasks(config, {}, 1000, {.plugin = "exec", .parameters = R"({"program": "true"})"});
  if (memory[memory.size() / 2] > 2) fail("the memory is used");
  return rate;
}

// One in a hundred fails, and that is logged.
double tasks_with_log(bool logs) {
  std::unique_ptr<NodeLog> log;
  const std::filesystem::path file = std::filesystem::current_path() / "build/bench/node.log";
  if (logs) {
    auto opened = NodeLog::open({.file = file});
    if (!opened) fail(opened.error().message);
    log = *std::move(opened);
    set_log_sink(log.get(), LogLevel::kInfo);
  }
  PluginRegistry plugins;
  static std::atomic<int> runs{0};
  if (!plugins.add("step", [](StepContext&) {
        return ++runs % 100 == 0 ? PluginResult::failure("it is the hundredth") : PluginResult::success();
      })) {
    fail("no plugin");
  }
  NodeConfig config;
  config.chains.concurrency = 64;
  config.group_defaults.max_concurrency = 64;
  const double rate = run_tasks(config, std::move(plugins), 20'000, {.plugin = "step"});
  set_log_sink(nullptr);
  log.reset();
  std::filesystem::remove(file);
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  Suite suite("node");
  suite.measure("durable submits, 64 at a time", "library", "tasks/s", library);
  suite.measure("durable submits, 64 at a time", "http", "tasks/s", over_http);
  suite.measure("p99 of a request", "no others", "us", [] { return p99_us(0); });
  suite.measure("p99 of a request", "1,000 idle connections", "us", [] { return p99_us(kIdle); });
  suite.ratio("submit_http_vs_library", {"durable submits, 64 at a time", "http"},
              {"durable submits, 64 at a time", "library"}, Suite::at_least(0.55, 0.8));
  suite.ratio("idle_connections_cost", {"p99 of a request", "1,000 idle connections"},
              {"p99 of a request", "no others"}, Suite::at_most(1.5, 1.1));
  suite.measure("p99 of GET by id, a million rows", "alone", "us", [] { return get_p99_us(0); });
  suite.measure("p99 of GET by id, a million rows", "8 clients scan", "us", [] { return get_p99_us(kScanners); });
  suite.ratio("get_p99_under_scans", {"p99 of GET by id, a million rows", "8 clients scan"},
              {"p99 of GET by id, a million rows", "alone"}, Suite::at_most(3, 2));
  suite.measure("exec", "500 MB resident", "runs/s", [] { return programs_a_second(475); });
  suite.measure("exec", "25 MB resident", "runs/s", [] { return programs_a_second(1); });
  suite.ratio("exec_rate_big_vs_small", {"exec", "500 MB resident"}, {"exec", "25 MB resident"},
              Suite::at_least(0.9, 1));
  suite.measure("tasks", "without logs", "tasks/s", [] { return tasks_with_log(false); });
  suite.measure("tasks", "logs at info", "tasks/s", [] { return tasks_with_log(true); });
  suite.ratio("log_cost", {"tasks", "without logs"}, {"tasks", "logs at info"}, Suite::at_most(1.05, 1.01));
  return suite.run(argc, argv);
}
