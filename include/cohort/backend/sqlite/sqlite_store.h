#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/base/wall_clock.h"
#include "cohort/store/task_store.h"

namespace cohort {

struct SqliteOptions {
  std::filesystem::path folder = "cohort-data";  ///< Created if it is missing. One process at a time may use it.
  /// What acknowledged writes survive.
  enum class Synchronous : std::uint8_t {
    kOff,     ///< The store does not wait for the disk. For experiments.
    kNormal,  ///< They survive the death of the process.
    kFull     ///< They survive a loss of power.
  } synchronous = Synchronous::kFull;
  /// Calls that may wait for each thread of the store. Further calls are rejected.
  std::uint32_t max_queued = 10'000;
  std::uint32_t max_batch = 500;  ///< Maximum number of calls in one transaction.
  std::string who = {};           ///< The name of this process in the error of another process that wants the folder.
  WallClock* clock = nullptr;     ///< Null: the system's.
  Clock* steady_clock = nullptr;  ///< Measures durations. Null: boottime_clock().
  /// How long open() waits for the folder if its owner is dead. Programs of a dead node may hold the folder for a
  /// moment. open() never waits for an owner that is alive.
  Duration lock_patience = std::chrono::seconds(5);
  /// Open a store whose write-ahead log is missing. Writes that were only in the log are lost.
  bool accept_lost_log = false;
  std::string vfs = {};  ///< The name of the SQLite VFS. Empty: SQLite's default.
};

/// The embedded store: one file in a folder, without a server.
///
/// One thread does all writes. It puts all calls that have arrived meanwhile into one transaction with one fsync. A
/// second thread looks up single rows. A third thread reads many rows. All reads see everything that was acknowledged
/// before.
///
///     Result<std::unique_ptr<SqliteStore>> store = SqliteStore::open({.folder = "cohort-data"});
///
/// - If the disk is full or the file cannot be written, calls fail with kUnavailable. Acknowledged writes stay. The
///   store goes on when the cause is gone.
/// - If the file is damaged, replaced or removed, fault() returns the reason from then on. The store then writes
///   nothing more.
/// - If a single row cannot be read, its task becomes poison, and its dead letter keeps the row. All other tasks go on.
///
/// Thread-safety: thread-safe. Completions run on the threads of the store. The destructor waits for running calls.
/// Queued calls fail with kEnded.
class SqliteStore final : public TaskStore {
 public:
  /// Opens the store, or creates it.
  /// - kConflict: another process has the folder. The message names the process.
  /// - kInvalid: the file is not a Cohort store, a newer version made it, its log is missing, or the folder is on a
  ///   network file system.
  /// - kUnavailable: the file system refused an operation.
  /// - kInternal: the file is damaged.
  static Result<std::unique_ptr<SqliteStore>> open(SqliteOptions options);
  ~SqliteStore() override;

  /// Like backup(), but for a folder that this process has not opened. Another process may use the folder meanwhile.
  /// kNotFound: the folder has no store.
  static Result<void> backup_folder(const std::filesystem::path& folder, const std::filesystem::path& to);
  /// Writes a consistent copy to a new file. Other calls go on meanwhile; only calls that read many rows wait. kExists:
  /// the file exists.
  void backup(std::filesystem::path to, Completion<void> done);
  /// Checks the whole file. kInternal: the file is damaged; the message says how.
  void check_integrity(Completion<void> done);

  /// The lock on the folder proves that no other process uses the store.
  [[nodiscard]] bool is_shared() const override { return false; }
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
  [[nodiscard]] std::optional<Error> fault() const override;
  [[nodiscard]] std::optional<Error> trouble() const override;
  /// A descriptor of the locked folder. A process that inherits a copy keeps the folder locked until that process ends.
  [[nodiscard]] int folder_descriptor() const;
  void set_cursor(std::string name, std::uint64_t value, Completion<void> done) override;
  void cursor(std::string name, Completion<std::uint64_t> done) override;
  void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) override;

 private:
  class Impl;
  explicit SqliteStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
