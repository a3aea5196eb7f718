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
  std::filesystem::path folder = "cohort-data";  ///< Made if it is not there. One process at a time.
  /// kFull: what was acknowledged survives a loss of power. kNormal: the death of the process only. kOff: nothing is
  /// waited for; for experiments.
  enum class Synchronous : std::uint8_t { kOff, kNormal, kFull } synchronous = Synchronous::kFull;
  std::uint32_t max_queued = 10'000;  ///< Calls that wait for the writer; more are rejected.
  std::uint32_t max_batch = 500;      ///< Calls in one transaction.
  std::string who = {};               ///< What another process that wants the folder is told of this one.
  WallClock* clock = nullptr;         ///< Null: the system's.
  Clock* steady_clock = nullptr;      ///< For lengths; null: boottime_clock().
  /// How long to wait for the folder while another process has it. A dead node's programs may need a moment to end.
  Duration lock_patience = std::chrono::seconds(5);
  bool accept_lost_log = false;  ///< Open a store whose write-ahead log is missing, without what was only in there.
  std::string vfs = {};          ///< Of SQLite, by name; empty: its default.
};

/// The embedded store: one file in a folder, no server. Calls that change something go through one writer thread, which
/// puts all that have come in meanwhile into one transaction and one fsync. Calls that look up a row go through a
/// reader thread, calls that go over many rows through another; both see everything that was acknowledged before.
///
///     Result<std::unique_ptr<SqliteStore>> store = SqliteStore::open({.folder = "cohort-data"});
///
/// When the disk is full or the file cannot be written, calls fail with kUnavailable and say so; nothing that was
/// acknowledged is touched, and the store goes on once the cause is gone. When the file is damaged, replaced or
/// removed, fault() says so from then on and nothing is written any more. A single row that cannot be read makes its
/// task poison, with the row kept in the dead letter; everything else goes on.
///
/// Thread-safety: thread-safe. Completions run on its threads; the destructor waits for those under way, and what is
/// still queued fails with kEnded.
class SqliteStore final : public TaskStore {
 public:
  /// kConflict: another process has the folder, and the message says who. kInvalid: the file is something else, or was
  /// made by a newer version. kUnavailable: the file system says no.
  static Result<std::unique_ptr<SqliteStore>> open(SqliteOptions options);
  ~SqliteStore() override;

  /// The same as backup() for a folder that this process has not opened; another one may be at work in it.
  static Result<void> backup_folder(const std::filesystem::path& folder, const std::filesystem::path& to);
  /// Writes a consistent copy to a new file while everything goes on. kExists: there is such a file.
  void backup(std::filesystem::path to, Completion<void> done);
  /// Looks at the whole file; kInternal with what is wrong.
  void check_integrity(Completion<void> done);

  void submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) override;
  void take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) override;
  void join(NodeLease node, Duration lease, Completion<void> done) override;
  void renew(std::string boot, Duration lease, Completion<void> done) override;
  void leave(std::string boot, Completion<void> done) override;
  void take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) override;
  void claim(ClaimRequest request, Completion<ClaimAnswer> done) override;
  void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) override;
  void groups_with_work(Completion<std::vector<GroupWork>> done) override;
  void ready(std::string task_id, Completion<ChainTask> done) override;
  void cancel(std::string task_id, std::string reason, Completion<ChainRow> done) override;
  void replay(ReplayRequest request, Completion<ChainTask> done) override;
  void pause_group(std::string group, bool paused, Completion<void> done) override;
  void command(Command command, Completion<std::uint64_t> done) override;
  void commands(std::uint64_t after, std::uint32_t limit, Completion<std::vector<Command>> done) override;
  [[nodiscard]] std::shared_ptr<void> watch(StoreWatch watch) override;
  void get(std::string task_id, Completion<ChainTask> done) override;
  void attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) override;
  void list(TaskFilter filter, Completion<TaskPage> done) override;
  void dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) override;
  void dead_letter(std::string task_id, Completion<DeadLetter> done) override;
  void discard_dead_letter(std::string task_id, Completion<void> done) override;
  void events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) override;
  void paused_groups(Completion<std::vector<std::string>> done) override;
  void group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) override;
  void group_count(std::string group, Completion<GroupCounts> done) override;
  void stats(Completion<StoreStats> done) override;
  [[nodiscard]] std::optional<Error> fault() const override;
  [[nodiscard]] std::optional<Error> trouble() const override;
  /// A descriptor of the locked folder. A process that inherits a copy of it keeps the folder locked until it ends.
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
