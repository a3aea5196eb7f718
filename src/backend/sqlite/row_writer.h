#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/sqlite/database.h"
#include "backend/sqlite/task_row.h"
#include "backend/task_text.h"
#include "cohort/base/function.h"
#include "cohort/store/task_store.h"
#include "store/chain_rules.h"
#include "store/watchers.h"

namespace cohort::sqlite {

/// The file has another owner or epoch for the row than this process believes: another process has written it.
class Fenced : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using backend::PreparedTask;

/// A task in memory, and what the file has of it: every UPDATE compares owner and epoch with that.
struct LoadedTask {
  explicit LoadedTask(ChainTask row) : task(std::move(row)) { note_stored(); }
  void note_stored() {
    state = task.state;
    owner = task.owner;
    epoch = task.epoch;
  }

  ChainTask task;
  ChainState state{};
  std::string owner;
  std::uint64_t epoch = 0;
};

/// Writes rows within a transaction that the caller begins and ends, and keeps `counts` in step with them.
///
/// Thread-safety: confined to the writer's thread.
class RowWriter {
 public:
  RowWriter(Database& database, DamageLog& damage) : database_(database), damage_(damage) {}

  void insert(const ChainTask& task, const PreparedTask& prepared);
  /// `body`: context and log as well. Throws Fenced.
  void save(LoadedTask& loaded, bool body);
  void remove(std::uint64_t sequence, const std::string& id, ChainState state, const std::string& group);
  void put_event(const ChainEvent& event);
  void put_letter(const DeadLetter& letter);
  /// False: there was none.
  bool remove_letter(const std::string& id);
  void put_attempts(const ChainTask& task, const std::vector<AttemptRecord>& attempts);
  /// Ends a task whose row cannot be read as poison. The dead letter keeps the row; the row is made readable.
  void poison_damaged(std::uint64_t sequence, const std::string& damage, WallTime now);

  /// Before the commit: writes what has changed in `counts`.
  void flush();
  /// After it: logs what the transaction has done.
  void log_committed();
  /// The transaction was rolled back.
  void forget();
  /// What the transaction has changed, for watchers once it is committed.
  [[nodiscard]] NewsOfChange& news() { return news_; }
  /// Logs it once the transaction is committed.
  void log_after_commit(Function<void()> entry) { committed_.push_back(std::move(entry)); }

 private:
  void count(const std::string& group, ChainState state, std::int64_t change);
  void add_to_count(std::string_view group, int state, std::int64_t change);

  Database& database_;
  DamageLog& damage_;
  NewsOfChange news_;
  std::unordered_map<std::string, std::array<std::int64_t, 3>> open_;  // By group: pending, ready, processing.
  std::array<std::int64_t, kChainStates> totals_{};
  std::int64_t letters_ = 0;
  bool must_recount_ = false;  // A damaged row was counted under nobody knows what.
  std::vector<Function<void()>> committed_;
};

}  // namespace cohort::sqlite
