#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/store/task_store.h"

namespace cohort {

struct PostgresOptions {
  /// Where the server is: "postgres://cohort@db.example.org/cohort?sslmode=verify-full", or "host=… dbname=…". Several
  /// hosts may be given; the store uses the one that takes writes. All parameters of libpq are understood.
  std::string url = {};
  std::filesystem::path password_file = {};  ///< A file with the password and nothing else. Empty: none.
  std::string schema = "cohort";             ///< The tables are in this schema, and nothing else is.
  bool migrate = true;                       ///< Make the tables, or bring them to this version, if need be.
  std::uint32_t writers = 2;                 ///< Connections that change tasks. 1 to 4. The store has five more.
  std::uint32_t max_batch = 200;             ///< Maximum number of calls in one transaction. 1 to 10,000.
  /// Calls that may wait. Further calls are rejected.
  std::uint32_t max_queued = 10'000;
  Duration connect_timeout = std::chrono::seconds(5);  ///< For one attempt to connect to one host.
  /// How long a call is repeated while the server is away, before it fails with kUnavailable.
  Duration patience = std::chrono::seconds(5);

  // For tests.
  Clock* lease_clock = nullptr;              ///< Measures how long other nodes are unheard of. Null: boottime_clock().
  std::function<Duration()> offset = {};     ///< Added to the server's clock.
  std::optional<std::int64_t> version = {};  ///< Stands for the version of this program's tables and rows.
};

/// The server and the schema, for people: "db.example.org/cohort, schema cohort". Without user and password.
[[nodiscard]] std::string place_of(const PostgresOptions& options);

/// A store that several nodes share: tables on a PostgreSQL server (15 or newer).
///
/// Calls that wait go together into one transaction: one round trip reads, one writes and commits. One thread drives
/// all connections. The store keeps no rows in memory between transactions. Deadlocks, time-outs and lost connections
/// are repeated; a call that fails for good fails alone. News go to other nodes by NOTIFY after each commit.
///
///     auto store = PostgresStore::open({.url = "postgres://cohort@127.0.0.1/cohort"});
///
/// What is promised holds as long as the server keeps what it has committed. With an asynchronous standby, a failover
/// loses the last commits; use a synchronous one (docs/operating/postgres.md).
///
/// Thread-safety: thread-safe. Completions run on the store's thread and must not block. The destructor answers calls
/// that wait with kEnded.
class PostgresStore final : public TaskStore {
 public:
  /// Connects, and makes or checks the tables.
  /// - kInvalid: the URL is malformed, the tables are too new or too old, a connection pooler is between, or the server
  ///   is too old.
  /// - kUnavailable: the server cannot be reached, or refuses the connection.
  static Result<std::unique_ptr<PostgresStore>> open(PostgresOptions options);
  ~PostgresStore() override;

  [[nodiscard]] bool is_shared() const override { return true; }
  void submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) override;
  void take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) override;
  void join(NodeLease node, Duration lease, Completion<void> done) override;
  void renew(std::string boot, Duration lease, Completion<void> done) override;
  void leave(std::string boot, Completion<void> done) override;
  void take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) override;
  void claim(ClaimRequest request, Completion<ClaimAnswer> done) override;
  void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) override;
  void claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) override;
  void groups_with_work(Completion<std::vector<GroupWork>> done) override;
  void ready(std::string task_id, Completion<ChainTask> done) override;
  void cancel(std::string task_id, std::string reason, Completion<ChainRow> done) override;
  void replay(ReplayRequest request, Completion<ChainTask> done) override;
  void pause_group(std::string group, bool paused, Completion<void> done) override;
  void set_limits(std::string group, std::string limits, Completion<void> done) override;
  void controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) override;
  [[nodiscard]] std::shared_ptr<void> watch(StoreWatch watch) override;
  void get(std::string task_id, Completion<ChainTask> done) override;
  void attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) override;
  void list(TaskFilter filter, Completion<TaskPage> done) override;
  void dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) override;
  void dead_letter(std::string task_id, Completion<DeadLetter> done) override;
  void discard_dead_letter(std::string task_id, Completion<void> done) override;
  void events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) override;
  void group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) override;
  void group_count(std::string group, Completion<GroupCounts> done) override;
  void stats(Completion<StoreStats> done) override;
  /// Why the server cannot be used at the moment.
  [[nodiscard]] std::optional<Error> trouble() const override;
  void set_cursor(std::string name, std::uint64_t value, Completion<void> done) override;
  void cursor(std::string name, Completion<std::uint64_t> done) override;
  void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) override;

 private:
  class Impl;
  explicit PostgresStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
