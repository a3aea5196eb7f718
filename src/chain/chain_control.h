#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chain/chain_calls.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"
#include "cohort/task/group_limits.h"

namespace cohort {

/// Makes this node do what operators want: pauses and limits of groups, cancels of running tasks. What they want stands
/// in rows of the store. A node compares the rows with what it does: when the store tells of a change, once a second on
/// a store that nodes share, and before a call of this class ends.
///
/// The comparison also finds claims that no run of this node has: the answer to a claim was lost, and its repetition
/// got another task. A claim that is found so twice is given back.
///
/// Thread-safety: thread-safe. The lock guards what was applied and found, and the comparison under way.
/// Store, executor and callbacks are called without it.
class ChainControl {
 public:
  struct Callbacks {
    std::function<void(const std::string& group)> wake;        ///< The group may have something to start.
    std::function<void(const std::string& task_id)> stop_run;  ///< Asks the task's step to stop, if it runs here.
    std::function<bool(const HeldClaim& claim)> has_run;       ///< The claim has a run here, or is being answered.
    std::function<std::string()> boot;                         ///< The boot that holds this node's claims.
    std::function<void()> look_again;                          ///< The rows could not be read: compare later.
  };

  ChainControl(TaskStore& store, Executor& executor, ChainCalls& calls, Callbacks callbacks)
      : store_(store), executor_(executor), calls_(calls), callbacks_(std::move(callbacks)) {}

  /// Compares, beginning after this call, and then calls `done`. Fails as the store does.
  void compare(Completion<void> done);
  void compare() {
    compare([](const Result<void>&) {});
  }

  TaskHandle<void> set_paused(std::string group, bool paused);
  TaskHandle<void> resize(std::string group, const GroupLimits& limits);
  TaskHandle<ChainRow> cancel(std::string task_id, std::string reason);

 private:
  using Controls = std::map<std::string, GroupControl>;

  /// One comparison. Its calls to the store own it, so it ends with them even if one is never answered.
  struct Round {
    std::vector<Completion<void>> waiting;  // To be told when this round ends,
    std::vector<Completion<void>> next;     // and when the next does.
  };
  using RoundRef = std::shared_ptr<Round>;

  void read_controls(const RoundRef& round, std::string after, Controls found);
  void read_claims(const RoundRef& round);
  void end_round(const RoundRef& round, const Result<void>& outcome);
  void apply(Controls wanted);
  void apply(const GroupControl& wanted, const GroupControl& before);
  void apply_claims(const std::vector<HeldClaim>& claims, const std::string& boot);
  void give_back(const HeldClaim& claim, const std::string& boot);

  TaskStore& store_;
  Executor& executor_;
  ChainCalls& calls_;
  const Callbacks callbacks_;
  mutable Mutex mutex_;
  std::weak_ptr<Round> round_ COHORT_GUARDED_BY(mutex_);  // What it points to is guarded too.
  Controls applied_ COHORT_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, std::uint64_t>> ownerless_ COHORT_GUARDED_BY(mutex_);  // Task and epoch, seen once.
};

}  // namespace cohort
