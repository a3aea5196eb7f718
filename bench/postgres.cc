// What do durable tasks on PostgreSQL cost beside a raw libpq loop that writes the same rows; how long until a task
// runs; what does a snapshot that is held open cost? bench/README.md tells the method. The server is at
// COHORT_BENCH_POSTGRES.

#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "harness.h"

namespace {

using namespace std::chrono_literals;
using namespace cohort;
using bench::Suite;
using Steady = std::chrono::steady_clock;

constexpr int kTasks = 10'000;
constexpr int kAtOnce = 100;
constexpr int kLongRun = 60'000;  // Tasks beside a snapshot.

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

std::string url() {
  const char* const url = std::getenv("COHORT_BENCH_POSTGRES");
  if (url == nullptr) fail("COHORT_BENCH_POSTGRES is not set; run ./dev bench postgres");
  return url;
}

/// Tables of a measurement's own.
class Schema {
 public:
  Schema() : connection_(PQconnectdb(url().c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) fail(PQerrorMessage(connection_));
    open().reset();
    run("SET client_min_messages = warning");
    run("SET search_path = " + name_);
  }
  ~Schema() {
    run("DROP SCHEMA " + name_ + " CASCADE");
    PQfinish(connection_);
  }
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  [[nodiscard]] std::unique_ptr<PostgresStore> open() const {
    auto opened = PostgresStore::open({.url = url(), .schema = name_});
    if (!opened) fail(opened.error().message);
    return *std::move(opened);
  }
  /// Gives the first column.
  std::vector<std::string> run(const std::string& sql, const std::vector<std::string>& parameters = {}) {
    std::vector<const char*> values;
    for (const std::string& each : parameters) values.push_back(each.c_str());
    PGresult* const result = PQexecParams(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr,
                                          values.data(), nullptr, nullptr, 0);
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(PQerrorMessage(connection_));
    std::vector<std::string> column;
    for (int i = 0; i < PQntuples(result); ++i) column.emplace_back(PQgetvalue(result, i, 0));
    PQclear(result);
    return column;
  }

 private:
  const std::string name_ = "bench_" + std::to_string(std::random_device()());
  PGconn* connection_;
};

NewTask one_step(int number) {
  return {.id = "task-" + std::to_string(number),
          .group = "tenant-" + std::to_string(number % 8),
          .steps = {{.plugin = "step"}},
          .deadline = 24h};
}

/// A node without a folder.
struct Node {
  Node(TaskStore& store, std::uint32_t concurrency, std::function<PluginResult(StepContext&)> step)
      : executor({.defaults = {.max_concurrency = concurrency}, .global_max_in_flight = concurrency}) {
    if (!plugins.add("step", std::move(step))) fail("no plugin");
    engine = std::make_unique<ChainEngine>(store, executor, plugins, ChainOptions{.concurrency = concurrency});
    if (!engine->start().await().ok()) fail("the engine did not start");
  }
  void wait_for(std::uint64_t completed) const {
    while (engine->stats().completed < completed) std::this_thread::sleep_for(200us);
  }

  GroupExecutor executor;
  PluginRegistry plugins;
  std::unique_ptr<ChainEngine> engine;
};

void insert(PostgresStore& store, int first, int count) {
  std::counting_semaphore<> room(kAtOnce);
  for (int i = first; i < first + count; ++i) {
    room.acquire();
    store.submit({one_step(i)}, [&room](const Result<std::vector<Result<Submitted>>>& made) {
      if (!made || !made->front()) fail("a submit failed");
      room.release();
    });
  }
  for (int i = 0; i < kAtOnce; ++i) room.acquire();
}

double inserts_a_second() {
  const Schema schema;
  const auto store = schema.open();
  insert(*store, 0, 200);  // The connections are there.
  const auto begin = Steady::now();
  insert(*store, 200, kTasks);
  return kTasks / seconds_since(begin);
}

std::string array_of(const std::vector<std::string>& texts) {
  std::string array = "{";
  for (const std::string& each : texts) {
    array += array.size() > 1 ? ",\"" : "\"";
    for (const char c : each) array += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    array += '"';
  }
  return array + "}";
}

// The same rows as the store writes; ids, groups and requests come from the client, as they do for the store.
void insert_raw(Schema& schema, int first, int count) {
  std::vector<std::string> ids;
  std::vector<std::string> groups;
  std::vector<std::string> requests;
  for (int i = first; i < first + count; ++i) {
    ids.push_back("task-" + std::to_string(i));
    groups.push_back("tenant-" + std::to_string(i % 8));
    requests.emplace_back(R"({"format":3,"deadline_ns":86400000000000,"steps":[{"parameters":"{}","plugin":"step"}]})");
  }
  schema.run(
      "WITH given AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS u(id, grp, request)), made AS "
      "(INSERT "
      "INTO tasks (id, grp, state, priority, plugin, created_at, deadline_at, deadline_after, request_hash, format) "
      "SELECT id, grp, 1, 1, 'step', 1700000000000000, 1900000000000000, 86400000000000, "
      "'0123456789abcdef0123456789abcdef', 1 FROM given RETURNING seq, id) INSERT INTO bodies SELECT made.seq, "
      "given.request, '{}', '{}', '[]' FROM made JOIN given ON given.id = made.id",
      {array_of(ids), array_of(groups), array_of(requests)});
}

double raw_inserts_a_second() {
  Schema schema;
  const auto begin = Steady::now();
  for (int first = 0; first < kTasks; first += kAtOnce) insert_raw(schema, first, kAtOnce);
  return kTasks / seconds_since(begin);
}

double tasks_a_second() {
  const Schema schema;
  const auto store = schema.open();
  insert(*store, 0, kTasks);
  const auto begin = Steady::now();
  Node node(*store, kAtOnce, [](StepContext&) { return PluginResult::success(); });
  node.wait_for(kTasks);
  return kTasks / seconds_since(begin);
}

void work_raw(Schema& schema, int group) {
  const std::vector<std::string> claimed = schema.run(
      "WITH c AS (SELECT seq FROM tasks WHERE grp = $1::text AND state = 1 AND due_at IS NULL ORDER BY priority, seq "
      "LIMIT "
      "100 FOR UPDATE SKIP LOCKED), t AS (UPDATE tasks t SET state = 2, owner = 'node/0123456789abcdef', epoch = 1, "
      "claim_id = 'claim-' || t.seq, attempt = 1, attempt_open = true, attempt_began_at = 1700000000000000, started_at "
      "= "
      "1700000000000000 FROM c WHERE t.seq = c.seq RETURNING t.*) SELECT t.seq, t.id, t.grp, t.epoch, b.request, "
      "b.payload, b.context FROM t JOIN bodies b ON b.seq = t.seq",
      {"tenant-" + std::to_string(group)});
  schema.run(
      "WITH done AS (UPDATE tasks SET state = 3, step = 1, attempt = 0, attempt_open = false, attempt_began_at = NULL, "
      "attempts_made = 1, writes = 1, plugin = '', events_made = 1, ended_at = 1700000000000000 WHERE seq = "
      "ANY($1::bigint[]) AND owner = 'node/0123456789abcdef' AND epoch = 1 RETURNING seq, id, grp), e AS (INSERT INTO "
      "events (at, kind, task_id, grp, step, detail, ordinal, format) SELECT 1700000000000000, 'completed', id, grp, "
      "1, "
      "'', 1, 1 FROM done) INSERT INTO attempts SELECT seq, 1, 0, 1, 'step', 'node/0123456789abcdef', "
      "1700000000000000, "
      "1700000000000000, 'succeeded', '', '[]', 1 FROM done",
      {array_of(claimed)});
}

double raw_tasks_a_second() {
  Schema schema;
  for (int first = 0; first < kTasks; first += kAtOnce) insert_raw(schema, first, kAtOnce);
  const auto begin = Steady::now();
  for (int done = 0; done < kTasks; done += kAtOnce) work_raw(schema, (done / kAtOnce) % 8);
  return kTasks / seconds_since(begin);
}

double median_us(std::vector<double> values) { return 1e6 * Suite::median(std::move(values)); }

double submit_to_first_step() {
  const Schema schema;
  const auto store = schema.open();
  std::atomic<std::promise<void>*> waiting{nullptr};
  Node node(*store, 4, [&](StepContext&) {
    waiting.load()->set_value();
    return PluginResult::success();
  });
  std::vector<double> took;
  for (int i = 0; i < 100; ++i) {
    std::promise<void> runs;
    std::future<void> running = runs.get_future();
    waiting = &runs;
    const auto begin = Steady::now();
    TaskHandle<Submitted> submitted = node.engine->submit(one_step(8 * i));
    running.wait();
    took.push_back(seconds_since(begin));
    if (!submitted.await().ok()) fail("a submit failed");
    node.wait_for(static_cast<std::uint64_t>(i) + 1);
    std::this_thread::sleep_for(20ms);  // Idle.
  }
  return median_us(took);
}

double one_commit() {
  Schema schema;
  std::vector<double> took;
  for (int i = 0; i < 100; ++i) {
    const auto begin = Steady::now();
    insert_raw(schema, i, 1);
    took.push_back(seconds_since(begin));
    std::this_thread::sleep_for(20ms);
  }
  return median_us(took);
}

// The rate of the last sixth, when most row versions of the tasks are older than the snapshot.
double last_claims_a_second(bool beside_snapshot) {
  Schema schema;
  const auto store = schema.open();
  insert(*store, 0, kLongRun);
  if (beside_snapshot) {
    schema.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    schema.run("SELECT count(*) FROM numbers");
  }
  Node node(*store, kAtOnce, [](StepContext&) { return PluginResult::success(); });
  node.wait_for(kLongRun * 5 / 6);
  const auto begin = Steady::now();
  node.wait_for(kLongRun);
  const double rate = kLongRun / 6.0 / seconds_since(begin);
  if (beside_snapshot) schema.run("COMMIT");
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  Suite suite("postgres");
  suite.measure("insert", "cohort", "tasks/s", inserts_a_second);
  suite.measure("insert", "libpq", "tasks/s", raw_inserts_a_second);
  suite.measure("work", "cohort", "tasks/s", tasks_a_second);
  suite.measure("work", "libpq", "tasks/s", raw_tasks_a_second);
  suite.measure("latency", "cohort", "us", submit_to_first_step);
  suite.measure("latency", "one commit", "us", one_commit);
  suite.measure(
      "snapshot", "held open", "tasks/s", [] { return last_claims_a_second(true); }, 3);
  suite.measure("snapshot", "none", "tasks/s", [] { return last_claims_a_second(false); });

  suite.ratio("insert_vs_raw", {"insert", "cohort"}, {"insert", "libpq"}, Suite::at_least(0.4, 0.7));
  suite.ratio("work_vs_raw", {"work", "cohort"}, {"work", "libpq"}, Suite::at_least(0.4, 0.7));
  suite.ratio("latency_vs_commit", {"latency", "cohort"}, {"latency", "one commit"}, Suite::at_most(4, 2.5));
  suite.ratio("claim_under_old_snapshot", {"snapshot", "held open"}, {"snapshot", "none"}, Suite::at_least(0.5, 0.8));
  return suite.run(argc, argv);
}
