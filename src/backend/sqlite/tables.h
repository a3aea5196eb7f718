#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/sqlite/database.h"
#include "backend/sqlite/row_writer.h"
#include "backend/sqlite/store_clock.h"
#include "cohort/base/result.h"
#include "cohort/store/task_store.h"
#include "store/chain_rules.h"

namespace cohort::sqlite {

/// The calls that change something, as SQL within a transaction that the caller begins and ends. Claimed tasks, live
/// boots and pauses are kept in memory, because this process is the only one that writes; every UPDATE of a task still
/// compares owner and epoch in the file.
///
/// Thread-safety: confined to the writer's thread.
class Tables {
 public:
  Tables(Database& database, StoreClock& clock, DamageLog& damage);

  /// Before the commit of a transaction.
  void flush() { rows_.flush(); }
  /// After it.
  void log_committed() { rows_.log_committed(); }
  /// After it: what it has changed.
  [[nodiscard]] StoreNews take_news() { return rows_.news().take(); }
  /// The transaction failed: what is kept in memory may be wrong.
  void forget();
  /// And it has been rolled back.
  void begin_anew();
  /// At the start, within a transaction: removes what is damaged in the small tables, before anybody goes by it.
  void mend();
  /// At the start: the steady clock may have been set back since the rows were written.
  void clamp_times();

  Result<Submitted> submit(PreparedTask prepared);
  IntakeAnswer take_in(TakenIn& message);
  Result<void> join(const NodeLease& node, Duration lease);
  Result<void> renew(const std::string& boot, Duration lease);
  void leave(const std::string& boot);
  std::vector<std::string> take_over(const std::string& boot, bool all_others);
  Result<ClaimAnswer> claim(const ClaimRequest& request);
  Result<ChainRow> write(const Claim& claim, std::uint64_t number, const RunnerWrite& write);
  Result<ChainTask> ready(const std::string& id);
  Result<ChainRow> cancel(const std::string& id, const std::string& reason);
  Result<ChainTask> replay(const ReplayRequest& request);
  /// kConflict: its row is one of a newer program.
  Result<void> pause_group(const std::string& group, bool paused);
  /// kConflict: likewise.
  Result<void> set_limits(const std::string& group, const std::string& limits);
  Result<void> discard_dead_letter(const std::string& id);
  void set_number(const std::string& name, std::int64_t value);
  [[nodiscard]] std::int64_t number(const std::string& name);
  std::uint64_t remove_ended(Duration older_than, std::uint32_t limit);
  /// Reads the row once more; if it still cannot be read, its task is poison.
  void poison_if_damaged(std::uint64_t sequence);

 private:
  struct Pause {
    std::optional<WallTime> since;  // Steady.
    Duration total{};
    std::string limits;  // Set while nodes ran; empty: the configuration's.
    std::int64_t version = 0;
    bool is_newer = false;  // Written by a newer program, and not to be changed by this one.
  };
  struct Boot {
    WallTime lease_until{};  // Steady.
    bool is_dead = false;
  };

  [[nodiscard]] StoreTime now() const { return clock_.now(); }
  [[nodiscard]] Duration held(const std::string& group);
  [[nodiscard]] Pause& pause_of(const std::string& group);
  void forget_pause(const std::string& group, const char* damage);
  void save_pause(const std::string& group, Pause& pause);
  [[nodiscard]] static Error newer_group(const std::string& group);
  [[nodiscard]] const Boot* boot_of(const std::string& boot);
  [[nodiscard]] bool came_back(const std::string& boot);
  [[nodiscard]] bool has_lease(const std::string& boot);
  void note_sign_of_life(const std::string& boot);
  void save(LoadedTask& loaded, bool body, chain_rules::Effects& effects);
  static Result<Submitted> existing(const Statement& row, const NewTask& request, const std::string& hash);
  void free_claims_of(const std::string& boot, chain_rules::Death death, std::set<std::string>& groups);
  void expire_pending(std::uint32_t limit);
  const std::string* claimed_by(const ClaimRequest& request);
  [[nodiscard]] bool may_have_due(const std::string& group);
  std::optional<std::int64_t> promote_due(const ClaimRequest& request);
  [[nodiscard]] std::optional<Duration> next_due(const std::string& group);
  /// Claimed before, or read now, and then good until the next is; null: there is none that can be read.
  LoadedTask* find(const std::string& id);
  /// Nothing: the row is one of a newer program, or is damaged, and then its task is poison now.
  std::optional<ChainTask> read(Statement& row);
  std::optional<ChainTask> read(std::uint64_t sequence);
  [[nodiscard]] Error no_such_task(const std::string& id);
  LoadedTask* keep(LoadedTask task);
  std::optional<ChainTask> next_ready(const ClaimRequest& request, bool& more);
  IntakeAnswer refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason);

  static constexpr std::size_t kRemembered = 10'000;  // Groups, boots and recent tasks in memory.

  Database& database_;
  StoreClock& clock_;
  DamageLog& damage_;
  RowWriter rows_;
  std::int64_t last_seq_ = 0;
  bool has_failed_ = false;  // A transaction, at some time: then what is in memory is not all.
  std::unordered_map<std::string, LoadedTask> claimed_;
  std::unordered_map<std::string, std::string> claims_;  // Ids of those, by the request that claimed them.
  /// Tasks that were submitted and not changed since, by sequence number: most are claimed soon, and need not be read.
  std::unordered_map<std::uint64_t, ChainTask> recent_;
  std::optional<LoadedTask> read_;
  std::unordered_map<std::string, Pause> pauses_;
  std::unordered_map<std::string, Boot> boots_;
  std::unordered_map<std::string, bool> has_due_;  // By group: whether a ready task waits for a time.
  std::optional<Duration> held_;
};

}  // namespace cohort::sqlite
