// What does durability cost beside a raw SQLite loop that writes the same rows; how long until a task runs, how long
// until a node that was killed works again, how much memory do waiting tasks need? bench/README.md tells the method.

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "harness.h"

namespace {

using namespace std::chrono_literals;
using namespace cohort;
using bench::Suite;
using Steady = std::chrono::steady_clock;

constexpr int kSubmitters = 64;
constexpr int kTasks = 20'000;
constexpr int kPerTransaction = 100;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

/// Beside the build, where a disk is: the system's place for temporary files may be memory.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::current_path() / "build/bench/store-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("no folder for the store");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A node on a store of its own.
struct Node {
  Node(const std::filesystem::path& folder, std::uint32_t concurrency, std::function<PluginResult(StepContext&)> step)
      : store(open(folder)),
        executor({.defaults = {.max_concurrency = concurrency}, .global_max_in_flight = concurrency}) {
    if (!plugins.add("step", std::move(step))) fail("no plugin");
    engine = std::make_unique<ChainEngine>(*store, executor, plugins, ChainOptions{.concurrency = concurrency});
    if (!engine->start().await().ok()) fail("the engine did not start");
  }
  static std::unique_ptr<SqliteStore> open(const std::filesystem::path& folder) {
    auto opened = SqliteStore::open({.folder = folder});
    if (!opened) fail(opened.error().message);
    return std::move(*opened);
  }

  std::unique_ptr<SqliteStore> store;
  GroupExecutor executor;
  PluginRegistry plugins;
  std::unique_ptr<ChainEngine> engine;
};

NewTask one_step(int group) {
  return {.group = "tenant-" + std::to_string(group), .steps = {{.plugin = "step"}}, .deadline = 24h};
}

// --- throughput

double durable_tasks_a_second() {
  const Folder folder;
  Node node(folder.path(), 256, [](StepContext&) { return PluginResult::success(); });
  const auto begin = Steady::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < kSubmitters; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kTasks; i += kSubmitters) {
        if (!node.engine->submit(one_step(i % 8)).await().ok()) fail("a submit failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (node.engine->stats().completed < kTasks) std::this_thread::sleep_for(200us);
  return kTasks / seconds_since(begin);
}

/// Statements on the tables that the store has made.
class Raw {
 public:
  explicit Raw(const std::filesystem::path& folder) {
    Node::open(folder).reset();
    if (sqlite3_open((folder / "cohort.db").c_str(), &database_) != SQLITE_OK) fail("sqlite3_open");
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = FULL");
  }
  ~Raw() { sqlite3_close(database_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  void execute(const char* sql) {
    if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(sqlite3_errmsg(database_));
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) != SQLITE_OK) fail(sqlite3_errmsg(database_));
    return statement;
  }
  void run(sqlite3_stmt* statement, int seq) {
    sqlite3_bind_int(statement, 1, seq);
    while (sqlite3_step(statement) == SQLITE_ROW) {
    }
    sqlite3_reset(statement);
  }

 private:
  sqlite3* database_ = nullptr;
};

constexpr const char* kInsertTask =
    "INSERT INTO tasks VALUES (?1, 'task-' || ?1, 'tenant-' || (?1 % 8), 1, 1, 'step', NULL, NULL, NULL, 0, 0, '', 0, "
    "0, "
    "0, 0, 0, '[]', '', 0, 0, 1700000000000000, 1700000000000000, NULL, NULL, 0, 0, '', 0, '', '', '[]', NULL, "
    "'0123456789abcdef0123456789abcdef', NULL, 86400000000000, NULL, 0, 0, NULL, 2, 0)";
constexpr const char* kInsertBody =
    "INSERT INTO bodies VALUES (?1, '{\"steps\":[{\"parameters\":\"{}\",\"plugin\":\"step\"}],\"deadline_ns\":1}', "
    "'{}', "
    "'{}', '[]')";
constexpr const char* kNext =
    "SELECT seq FROM tasks WHERE grp = 'tenant-' || (?1 % 8) AND state = 1 AND due_at IS NULL ORDER BY priority, seq "
    "LIMIT 1";
constexpr const char* kClaim =
    "UPDATE tasks SET state = 2, owner = 'node/0123456789abcdef', epoch = 1, claim_id = "
    "'0123456789abcdef0123456789abcdef', "
    "attempt = 1, attempt_open = 1, attempt_began_at = 1700000000000000, started_at = 1700000000000000 WHERE seq = ?1";
constexpr const char* kFinish =
    "UPDATE tasks SET state = 3, step = 1, attempt = 0, attempt_open = 0, attempt_began_at = NULL, attempts_made = 1, "
    "writes = 1, plugin = '', ended_at = 1700000000000000 WHERE seq = ?1";
constexpr const char* kAttempt =
    "INSERT INTO attempts VALUES (?1, 1, 0, 1, 'step', 'node/0123456789abcdef', 1700000000000000, 1700000000000000, "
    "'succeeded', '', '[]', 2)";
constexpr const char* kEvent =
    "INSERT INTO events (at, kind, task_id, grp, step, detail) VALUES (1700000000000000, 'completed', 'task-' || ?1, "
    "'tenant-' || (?1 % 8), 1, '')";

double raw_tasks_a_second() {
  const Folder folder;
  Raw raw(folder.path());
  using Statements = std::vector<sqlite3_stmt*>;
  const Statements insert = {raw.prepare(kInsertTask), raw.prepare(kInsertBody)};
  const Statements claim = {raw.prepare(kNext), raw.prepare(kClaim)};
  const Statements finish = {raw.prepare(kFinish), raw.prepare(kEvent), raw.prepare(kAttempt)};
  const auto begin = Steady::now();
  for (int first = 1; first <= kTasks; first += kPerTransaction) {
    for (const auto& statements : {insert, claim, finish}) {
      raw.execute("BEGIN IMMEDIATE");
      for (int seq = first; seq < first + kPerTransaction; ++seq) {
        for (sqlite3_stmt* const each : statements) raw.run(each, seq);
      }
      raw.execute("COMMIT");
    }
  }
  const double rate = kTasks / seconds_since(begin);
  for (const Statements& statements : {insert, claim, finish}) {
    for (sqlite3_stmt* const each : statements) sqlite3_finalize(each);
  }
  return rate;
}

// --- latency

double median_us(std::vector<double> values) { return 1e6 * Suite::median(std::move(values)); }

double submit_to_first_step() {
  const Folder folder;
  std::atomic<std::promise<void>*> waiting{nullptr};
  Node node(folder.path(), 4, [&](StepContext&) {
    waiting.load()->set_value();
    return PluginResult::success();
  });
  std::vector<double> took;
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::promise<void> runs;
    std::future<void> running = runs.get_future();
    waiting = &runs;
    const auto begin = Steady::now();
    TaskHandle<Submitted> submitted = node.engine->submit(one_step(0));
    running.wait();
    took.push_back(seconds_since(begin));
    if (!submitted.await().ok()) fail("a submit failed");
    while (node.engine->stats().completed < i + 1) std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(2ms);  // Idle.
  }
  return median_us(took);
}

double one_commit() {
  const Folder folder;
  Raw raw(folder.path());
  sqlite3_stmt* const insert = raw.prepare(kInsertTask);
  std::vector<double> took;
  for (int i = 1; i <= 200; ++i) {
    const auto begin = Steady::now();
    raw.execute("BEGIN IMMEDIATE");
    raw.run(insert, i);
    raw.execute("COMMIT");
    took.push_back(seconds_since(begin));
    std::this_thread::sleep_for(2ms);
  }
  sqlite3_finalize(insert);
  return median_us(took);
}

// --- after a kill, and with much waiting

void submit_many(ChainEngine& engine, int count) {
  for (int done = 0; done < count;) {
    std::vector<NewTask> batch;
    for (int i = 0; i < 1000 && done < count; ++i, ++done) batch.push_back(one_step(done % 8));
    const auto answers = engine.submit_all(std::move(batch)).await();
    if (!answers.ok() || !answers.value->front()) fail("a submit failed");
  }
}

double seconds_to_resume() {
  const Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    Node node(folder.path(), 64, [](StepContext&) -> PluginResult {
      std::this_thread::sleep_for(1h);
      return PluginResult::success();
    });
    submit_many(*node.engine, 10'000);
    while (node.engine->stats().running < 64) std::this_thread::sleep_for(1ms);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) fail("the child did not die as it should");
  std::promise<void> first;
  std::atomic<bool> begun{false};
  const auto begin = Steady::now();
  Node node(folder.path(), 64, [&](StepContext&) {
    if (!begun.exchange(true)) first.set_value();
    return PluginResult::success();
  });
  first.get_future().wait();
  const double took = seconds_since(begin);
  while (node.engine->stats().completed < 10'000) std::this_thread::sleep_for(1ms);
  return took;
}

double mib_with_a_million_waiting() {
  const Folder folder;
  Node node(folder.path(), 4, [](StepContext&) { return PluginResult::success(); });
  for (int group = 0; group < 8; ++group) {
    if (!node.engine->pause_group("tenant-" + std::to_string(group)).await().ok()) fail("pause");
  }
  submit_many(*node.engine, 1'000'000);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  fail("no VmRSS");
}

}  // namespace

int main(int argc, char** argv) {
  Suite suite("chain");
  suite.measure("durable", "cohort", "tasks/s", durable_tasks_a_second);
  suite.measure("durable", "raw SQLite", "tasks/s", raw_tasks_a_second);
  suite.measure("latency", "cohort", "us p50", submit_to_first_step);
  suite.measure("latency", "one commit", "us p50", one_commit);
  suite.measure("resume", "cohort", "s", seconds_to_resume, 3);
  suite.measure("waiting", "cohort", "MiB", mib_with_a_million_waiting, 1);
  suite.ratio("durable_vs_raw", {"durable", "cohort"}, {"durable", "raw SQLite"}, Suite::at_least(0.4, 0.6));
  suite.ratio("latency_vs_commit", {"latency", "cohort"}, {"latency", "one commit"}, Suite::at_most(5, 3));
  const auto value_of = [](const char* workload) {
    return [workload](const Suite::Values& values) { return Suite::median(values.at({workload, "cohort"})); };
  };
  suite.figure("resume_s", "resume", value_of("resume"), Suite::at_most(2, 1));
  suite.figure("rss_mib_1m_waiting", "waiting", value_of("waiting"), Suite::at_most(200, 100));
  return suite.run(argc, argv);
}
