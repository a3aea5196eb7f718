#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/sqlite/database.h"
#include "cohort/base/result.h"
#include "cohort/store/task_store.h"
#include "store/chain_rules.h"

namespace cohort::sqlite {

/// The calls that change something, as SQL within a transaction that somebody else begins and ends. What the tasks it
/// has claimed look like it keeps in memory: this process is the only one that writes.
///
/// Thread-safety: confined to the writer's thread.
class Tables {
 public:
  Tables(Database& database, WallClock& clock);

  /// The transaction failed: what is kept in memory may be wrong.
  void forget();
  /// And it has been rolled back.
  void begin_anew();

  Result<Submitted> submit(NewTask task);
  IntakeAnswer take_in(TakenIn& message);
  Result<void> join(const NodeLease& node, Duration lease);
  Result<void> renew(const std::string& boot, Duration lease);
  void leave(const std::string& boot);
  std::vector<std::string> take_over(const std::string& boot, bool all_others);
  Result<ClaimAnswer> claim(const ClaimRequest& request);
  Result<Written> write(const Claim& claim, std::uint64_t number, const RunnerWrite& write);
  Result<Written> cancel(const std::string& id, const std::string& reason);
  Result<ChainTask> replay(const ReplayRequest& request);
  void pause_group(const std::string& group, bool paused);
  std::uint64_t command(const Command& command);
  Result<void> discard_dead_letter(const std::string& id);
  void set_number(const std::string& name, std::int64_t value);
  [[nodiscard]] std::int64_t number(const std::string& name);
  std::uint64_t remove_ended(Duration older_than, std::uint32_t limit);

 private:
  struct Pause {
    std::optional<WallTime> since;
    Duration total{};
  };

  [[nodiscard]] WallTime now() const { return clock_.now(); }
  [[nodiscard]] Duration held(const std::string& group);
  [[nodiscard]] Pause& pause_of(const std::string& group);
  [[nodiscard]] bool came_back(const std::string& boot);
  [[nodiscard]] bool has_lease(const std::string& boot);
  void note_sign_of_life(const std::string& boot);
  void insert(const ChainTask& task);
  void save(const ChainTask& task, bool body);
  void apply(const ChainTask& task, chain_rules::Effects& effects);
  void put_event(const ChainEvent& event);
  void put_letter(const DeadLetter& letter);
  void free_claims_of(const std::string& boot, chain_rules::Death death, std::set<std::string>& groups);
  void expire_pending(std::uint32_t limit);
  const std::string* claimed_by(const ClaimRequest& request);
  std::optional<std::int64_t> promote_due(const ClaimRequest& request);
  /// Claimed before, or read now, and then good until the next is; null: there is none.
  ChainTask* find(const std::string& id);
  ChainTask* keep(ChainTask task);
  std::optional<ChainTask> next_ready(const ClaimRequest& request, bool& more);
  IntakeAnswer refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason);

  Database& database_;
  WallClock& clock_;
  std::int64_t last_seq_ = 0;
  bool has_failed_ = false;  // A transaction, at some time: then what is in memory is not all.
  std::unordered_map<std::string, ChainTask> claimed_;
  std::unordered_map<std::string, std::string> claims_;  // Ids of those, by the request that claimed them.
  std::optional<ChainTask> read_;
  std::unordered_map<std::string, Pause> pauses_;
  std::optional<Duration> held_;
};

/// Rows as both connections read them: all columns of `tasks` joined with `bodies`, in the order of the schema.
extern const char* const kTaskColumns;
[[nodiscard]] ChainTask read_task(const Statement& row);
[[nodiscard]] std::optional<ChainTask> read_task(Database& database, const std::string& id);
[[nodiscard]] DeadLetter read_letter(const Statement& row);

}  // namespace cohort::sqlite
