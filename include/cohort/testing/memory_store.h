#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/wall_clock.h"
#include "cohort/store/task_store.h"

namespace cohort {

struct StoreTime;
class LeaseWatch;
class NewsOfChange;
class Watchers;
namespace chain_rules {
enum class Death : std::uint8_t;
}

/// A TaskStore in memory, for tests and simulations. It keeps every promise of the TaskStore port, except that its data
/// ends with the object. Each completion runs inside its call.
///
/// Thread-safety: thread-safe.
class MemoryStore final : public TaskStore {
 public:
  /// Deliberate bugs that the tests must find.
  struct PlantedBugs {
    bool accepts_stale_epochs = false;
    bool blames_neighbours = false;  ///< After two crashes a task is poison at the next, even if it did not run alone.
    /// What stores with several connections may get wrong:
    bool claims_for_the_dead = false;  ///< A claim does not see that its boot is being taken over.
    bool takes_over_half = false;      ///< A take-over frees one task, and nobody sweeps the others.
    bool forgets_claim_ids = false;    ///< On a shared store, a repeated claim gets another task.
    bool shows_events_late = false;    ///< Some events can be read only after events with higher numbers.
  };

  struct Options {
    const Clock* steady = nullptr;  ///< Measures delays, deadlines and leases. Null: the wall clock measures them too.
    const Clock* lease_clock = nullptr;  ///< Measures how long a boot is unheard of. Null: as `steady`.
    bool is_shared = false;              ///< Several engines use the store as nodes of their own.
    PlantedBugs bugs = {};
  };

  explicit MemoryStore(WallClock& clock) : MemoryStore(clock, Options()) {}
  MemoryStore(WallClock& clock, Options options);
  ~MemoryStore() override;

  [[nodiscard]] bool is_shared() const override { return is_shared_; }
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
  void set_cursor(std::string name, std::uint64_t value, Completion<void> done) override;
  void cursor(std::string name, Completion<std::uint64_t> done) override;
  void remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) override;

  /// All rows, for checks.
  [[nodiscard]] std::vector<ChainTask> all() const;

 private:
  struct Boot {
    NodeLease node;
    Duration lease{};
    std::uint64_t renewals = 0;
    bool dead = false;       // Another boot took its claims over, or it left.
    bool came_back = false;  // It was dead and has shown a sign of life since.
  };
  struct Group {
    std::set<std::pair<std::pair<Priority, std::uint64_t>, std::string>> ready;  // Ids, in their order.
    std::optional<WallTime> paused_since;
    Duration paused_total{};
    std::string limits;
    std::uint64_t version = 0;
  };

  [[nodiscard]] StoreTime now() const;
  [[nodiscard]] Time observer_time() const;
  [[nodiscard]] std::map<std::string, GroupCounts> count_groups() COHORT_REQUIRES(mutex_);
  Result<Submitted> submit_one(NewTask request, StoreTime now) COHORT_REQUIRES(mutex_);
  IntakeAnswer take_in_one(TakenIn& message, StoreTime now) COHORT_REQUIRES(mutex_);
  IntakeAnswer refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason, StoreTime now)
      COHORT_REQUIRES(mutex_);
  ClaimAnswer claim_one(const ClaimRequest& request, StoreTime now) COHORT_REQUIRES(mutex_);
  void free_claims_of(const std::string& boot, chain_rules::Death death, StoreTime now, std::set<std::string>& groups)
      COHORT_REQUIRES(mutex_);
  void note_sign_of_life(const std::string& boot) COHORT_REQUIRES(mutex_);
  [[nodiscard]] Duration held(const std::string& group, StoreTime now) COHORT_REQUIRES(mutex_);
  template <class Change>
  auto change(ChainTask& task, Change&& change, bool is_new = false) COHORT_REQUIRES(mutex_);
  void keep(const ChainTask& task) COHORT_REQUIRES(mutex_);
  void tell_news() COHORT_EXCLUDES(mutex_);
  [[nodiscard]] ChainTask* find(const std::string& id) COHORT_REQUIRES(mutex_);

  WallClock& clock_;
  const Clock* const steady_;
  const Clock* const lease_clock_;
  const bool is_shared_;
  const PlantedBugs bugs_;
  const std::unique_ptr<Watchers> watchers_;
  mutable Mutex mutex_;
  const std::unique_ptr<NewsOfChange> news_;  // Guarded by mutex_.
  const std::unique_ptr<LeaseWatch> leases_;  // Likewise.
  std::map<std::string, ChainTask> tasks_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, Group> groups_ COHORT_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::string> keys_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, Boot> boots_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<AttemptRecord>> attempts_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, DeadLetter> letters_ COHORT_GUARDED_BY(mutex_);
  std::set<std::string> refused_messages_ COHORT_GUARDED_BY(mutex_);
  std::vector<ChainEvent> events_ COHORT_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> cursors_ COHORT_GUARDED_BY(mutex_);
  std::uint64_t sequence_ COHORT_GUARDED_BY(mutex_) = 0;
  std::uint64_t event_sequence_ COHORT_GUARDED_BY(mutex_) = 0;
  Duration held_ COHORT_GUARDED_BY(mutex_){};
};

}  // namespace cohort
