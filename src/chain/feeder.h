#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Keeps one ticket in the executor for every group that has ready tasks. A ticket that starts claims the group's next
/// task and runs it; so the executor's fair share, limits, rates and pauses decide whose turn it is, and only tasks
/// that run are in memory.
///
/// Who knows of a ready task says wake(). Nothing here looks for tasks by itself.
///
/// Thread-safety: thread-safe. `put_ticket` is called without a lock.
template <class Faults>
class BasicFeeder {
 public:
  using PutTicket = std::function<TaskHandle<void>(const std::string& group)>;

  explicit BasicFeeder(PutTicket put_ticket) : put_ticket_(std::move(put_ticket)) {}

  /// There are `count` more ready tasks in the group, or may be.
  void wake(const std::string& group, std::uint64_t count = 1) {
    bool wants_ticket = false;
    std::uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      GroupState& state = groups_[group];
      if (Faults::kForgetReadyRow && state.out != 0) return;
      state.hints += count;
      ++state.wakes;
      // A ticket that somebody cancelled is none.
      wants_ticket = !state.has_ticket || (state.ticket.valid() && state.ticket.is_done());
      state.has_ticket = true;
      number = state.puts += wants_ticket ? 1 : 0;
    }
    if (wants_ticket) put(group, number);
  }

  /// A ticket of the group has started. Gives the number to say claimed() with.
  std::uint64_t started(const std::string& group) {
    std::uint64_t number = 0;
    std::uint64_t wakes = 0;
    {
      MutexLock lock(mutex_);
      GroupState& state = groups_[group];
      state.has_ticket = false;
      state.ticket = TaskHandle<void>();
      ++state.out;
      if (state.hints > 0) --state.hints;
      wakes = state.wakes;
      number = may_put(state);
    }
    if (number != 0) put(group, number);
    return wakes;
  }

  /// Its claim has been answered. What was woken after the claim had begun may not be in the answer.
  void claimed(const std::string& group, const ClaimAnswer& answer, std::uint64_t wakes) {
    std::uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      GroupState& state = groups_[group];
      state.more = answer.more;
      if (!answer.task && !answer.more && state.wakes == wakes) state.hints = 0;
      number = may_put(state);
    }
    if (number != 0) put(group, number);
  }

  void ended(const std::string& group) {
    MutexLock lock(mutex_);
    const auto found = groups_.find(group);
    --found->second.out;
    if (found->second.out == 0 && !found->second.has_ticket) groups_.erase(found);
  }

  /// Puts no more tickets in, and takes those back that wait.
  void stop() {
    std::vector<TaskHandle<void>> waiting;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      for (auto& [group, state] : groups_) {
        if (state.has_ticket && state.ticket.valid()) waiting.push_back(state.ticket);
      }
    }
    for (const TaskHandle<void>& each : waiting) each.cancel();
  }

 private:
  struct GroupState {
    bool has_ticket = false;  // One waits in the executor, or is on its way there.
    TaskHandle<void> ticket;
    std::uint32_t out = 0;    // Tickets that have started.
    std::uint64_t hints = 0;  // Tasks that were told of and that no ticket has started for.
    bool more = false;        // As the last claim said.
    std::uint64_t wakes = 0;
    std::uint64_t puts = 0;  // Tickets so far.
  };

  // The number of the ticket to put in; 0: none.
  std::uint64_t may_put(GroupState& state) COHORT_REQUIRES(mutex_) {
    if (stopped_ || state.has_ticket || (state.hints == 0 && !state.more)) return 0;
    state.has_ticket = true;
    return ++state.puts;
  }

  void put(const std::string& group, std::uint64_t number) {
    TaskHandle<void> ticket = put_ticket_(group);
    bool is_late = false;
    {
      MutexLock lock(mutex_);
      const auto found = groups_.find(group);
      // It may have started already, and put in the next one.
      const bool waits = found != groups_.end() && found->second.has_ticket && found->second.puts == number;
      if (waits) found->second.ticket = ticket;
      is_late = stopped_;
    }
    if (is_late) ticket.cancel();
  }

  const PutTicket put_ticket_;
  Mutex mutex_;
  std::unordered_map<std::string, GroupState> groups_ COHORT_GUARDED_BY(mutex_);
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
