#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "cohort/base/mutex.h"
#include "cohort/task/executor.h"

namespace cohort::internal {

/// One call of execute_all. Of each group, at most a window of the batch's tasks is open at a time; the batch submits
/// the group's next task when the oldest open one is done. So the batch alone does not overflow a queue, and a slow
/// group in it does not delay the others. The first tasks are too few to fill any window and need no pacing.
template <class T>
class Batch {
 public:
  Batch(Executor& executor, std::vector<GroupTask<T>>& tasks, std::stop_token stop)
      : executor_(executor), tasks_(tasks), stop_(std::move(stop)), handles_(tasks.size()) {}

  std::vector<TaskResult<T>> run() {
    std::optional<std::stop_callback<Cancel>> cancel_rest;
    if (stop_.stop_possible()) cancel_rest.emplace(stop_, Cancel{*this});
    try {
      return submit_and_wait();
    } catch (...) {
      // No task that this call has submitted may outlive the call.
      for (const TaskHandle<T>& handle : handles_) {
        if (!handle.valid()) continue;
        const auto state = AwaitState::make(handle.record());
        if (ExecutorAccess::await(*state, std::nullopt)) ExecutorAccess::block(*state);
      }
      throw;
    }
  }

 private:
  std::vector<TaskResult<T>> submit_and_wait() {
    const std::size_t unpaced =
        std::min<std::size_t>({tasks_.size(), kLongestWindow, ExecutorAccess::shortest_queue(executor_)});
    for (std::size_t i = 0; i < unpaced && !stop_.stop_requested(); i += ExecutorAccess::kMaxSubmittedAtOnce) {
      submit(i, std::min(unpaced - i, ExecutorAccess::kMaxSubmittedAtOnce));
    }
    if (unpaced < tasks_.size()) submit_rest(unpaced);
    const bool in_task = current_task() != nullptr;
    if (in_task) wait_for_all();
    std::vector<TaskResult<T>> results;
    results.reserve(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!in_task && handles_[i].valid() && !handles_[i].is_done()) wait_for_some(i);
      results.push_back(handles_[i].valid() ? handles_[i].take() : never_submitted(tasks_[i]));
    }
    return results;
  }

  static constexpr std::uint32_t kLongestWindow = 1024;
  // The batch's tasks of one group: those before `first_open` are done, those before `next` have been submitted.
  struct Lane {
    std::size_t window = 0;
    std::vector<std::size_t> tasks;
    std::size_t first_open = 0;
    std::size_t next = 0;
    [[nodiscard]] bool has_more() const { return next < tasks.size(); }
    [[nodiscard]] bool is_full() const { return next - first_open >= window; }
  };
  struct KeyHash {  // With the secret of the process: the keys come from outside.
    std::size_t operator()(std::string_view key) const { return TaskLabel::hash(key); }
  };
  struct Cancel {
    Batch& batch;
    void operator()() const { batch.cancel(); }
  };

  std::size_t window_of(const std::string& group) {
    const ResolvedLimits limits = executor_.resolve(group);
    return std::clamp(std::max(limits.max_waiting, limits.max_concurrency), 1U, kLongestWindow);
  }

  // Goes through the input and submits each task that has room in its window; then the others as places become free.
  void submit_rest(std::size_t first) {
    std::unordered_map<std::string_view, std::size_t, KeyHash> lane_of;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const auto [place, is_new] = lane_of.try_emplace(tasks_[i].group(), lanes_.size());
      if (is_new) lanes_.emplace_back().window = window_of(tasks_[i].group());
      Lane& lane = lanes_[place->second];
      lane.tasks.push_back(i);
      if (i < first) {
        ++lane.next;
      } else {
        fill(lane);
      }
    }
    while (submit_what_fits() && !stop_.stop_requested()) wait_for_a_place();
  }

  // Returns true if tasks are left.
  bool submit_what_fits() {
    bool more = false;
    for (Lane& lane : lanes_) {
      fill(lane);
      more = more || lane.has_more();
    }
    return more;
  }

  void fill(Lane& lane) {
    while (lane.has_more() && !stop_.stop_requested()) {
      if (lane.is_full()) {
        while (lane.first_open < lane.next && handles_[lane.tasks[lane.first_open]].is_done()) ++lane.first_open;
        if (lane.is_full()) return;
      }
      submit(lane.tasks[lane.next++], 1);
    }
  }

  void submit(std::size_t first, std::size_t count) {
    const std::span<TaskHandle<T>> handles = std::span(handles_).subspan(first, count);
    const std::span<GroupTask<T>> tasks = std::span(tasks_).subspan(first, count);
    if (!stop_.stop_possible()) return ExecutorAccess::submit_paced(executor_, tasks, handles);
    std::vector<TaskHandle<T>> submitted(count);
    ExecutorAccess::submit_paced(executor_, tasks, std::span(submitted));
    bool stopped = false;
    {
      MutexLock lock(mutex_);
      std::ranges::copy(submitted, handles.begin());
      stopped = stopped_;
    }
    if (!stopped) return;
    for (const TaskHandle<T>& handle : submitted) handle.cancel();
  }

  void wait_for_a_place() {
    std::vector<TaskRef> oldest;
    for (const Lane& lane : lanes_) {
      if (lane.has_more()) oldest.emplace_back(handles_[lane.tasks[lane.first_open]].record());
    }
    const auto state = AwaitState::make(std::move(oldest), 1);
    // A task that has run out of time cannot await, but it must not spin either.
    if (ExecutorAccess::await(*state, std::nullopt)) ExecutorAccess::block(*state);
  }

  // Falling asleep and being woken costs more than many short tasks do, so this thread sleeps as seldom as possible: it
  // waits for a task that is some places ahead, and it spins for a moment first.
  void wait_for_some(std::size_t first) {
    constexpr std::size_t kAhead = 256;
    constexpr int kTries = 1000;
    const TaskHandle<T>& later = handles_[std::min(first + kAhead, handles_.size() - 1)];
    if (!later.valid()) return;
    for (int i = 0; i < kTries && !later.is_done(); ++i) pause_processor();
    if (!later.is_done()) ExecutorAccess::await(*AwaitState::make(later.record()), std::nullopt);
  }

  // Inside a task one wait covers the whole batch, so that all its tasks count as awaited from the beginning. Outside a
  // task, the batch waits for a task when it takes the task's result, while later tasks run.
  void wait_for_all() {
    std::vector<TaskRef> open;
    for (const TaskHandle<T>& handle : handles_) {
      if (handle.valid() && !handle.is_done()) open.emplace_back(handle.record());
    }
    const std::size_t need = open.size();
    if (need != 0) ExecutorAccess::await(*AwaitState::make(std::move(open), need), std::nullopt);
  }

  void cancel() {
    std::vector<TaskHandle<T>> submitted;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      submitted = handles_;
    }
    for (const TaskHandle<T>& handle : submitted) {
      if (handle.valid()) handle.cancel();
    }
  }

  TaskResult<T> never_submitted(const GroupTask<T>& task) {
    const Time now = executor_.clock().now();
    Error error{ErrorCode::kCancelled, "the batch was asked to stop before this task was submitted"};
    return {task.group(), task.task_id(), TaskStatus::kCancelled, std::nullopt, std::move(error), now, now, now};
  }

  Executor& executor_;
  std::vector<GroupTask<T>>& tasks_;
  std::stop_token stop_;
  std::vector<Lane> lanes_;  // In the order of each group's first task.
  Mutex mutex_;
  // Indexed like tasks_; invalid until submitted. The batch's own thread writes it. If a stop is possible, it writes
  // under the lock, because the thread that requests the stop reads it.
  std::vector<TaskHandle<T>> handles_;
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort::internal

namespace cohort {

template <class T>
std::vector<TaskResult<T>> Executor::execute_all(std::vector<GroupTask<T>>& tasks, std::stop_token stop) {
  return internal::Batch<T>(*this, tasks, std::move(stop)).run();
}

}  // namespace cohort
