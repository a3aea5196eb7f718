#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>

#include "cohort/base/mutex.h"
#include "cohort/task/executor.h"

namespace cohort::internal {

/// One call of execute_all. Each group has at most a window of the batch's tasks open at a time; the next is handed in
/// when the oldest of them is done. So the batch does not overflow a queue by itself, and a slow group in it does not
/// hold up the others.
template <class T>
class Batch {
 public:
  Batch(Executor& executor, std::vector<GroupTask<T>>& tasks)
      : executor_(executor), tasks_(tasks), handles_(tasks.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) lane_of(tasks[i].group()).tasks.push_back(i);
  }

  std::vector<TaskResult<T>> run(std::stop_token stop) {
    std::stop_callback cancel_rest(stop, [this] { cancel(); });
    while (!stop.stop_requested() && submit_what_fits()) wait_for_a_place();
    const std::vector<TaskHandle<T>> submitted = handles();
    wait_for_all(submitted);
    std::vector<TaskResult<T>> results;
    results.reserve(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      results.push_back(submitted[i].valid() ? submitted[i].take() : never_submitted(tasks_[i]));
    }
    return results;
  }

 private:
  static constexpr std::uint32_t kLongestWindow = 1024;
  struct Lane {
    std::size_t window = 0;
    std::vector<std::size_t> tasks;
    std::size_t next = 0;
    std::deque<TaskHandle<T>> open;
    [[nodiscard]] bool has_more() const { return next < tasks.size(); }
  };

  Lane& lane_of(const std::string& group) {
    auto [place, is_new] = lanes_.try_emplace(group);
    if (is_new) place->second.window = std::clamp(executor_.resolve(group).max_waiting, 1U, kLongestWindow);
    return place->second;
  }

  // True when some are left.
  bool submit_what_fits() {
    bool more = false;
    for (auto& [group, lane] : lanes_) {
      while (!lane.open.empty() && lane.open.front().is_done()) lane.open.pop_front();
      while (lane.has_more() && lane.open.size() < lane.window) submit(lane);
      more = more || lane.has_more();
    }
    return more;
  }

  void submit(Lane& lane) {
    const std::size_t index = lane.tasks[lane.next++];
    TaskHandle<T> handle = ExecutorAccess::submit_paced(executor_, tasks_[index]);
    lane.open.push_back(handle);
    bool stopped = false;
    {
      MutexLock lock(mutex_);
      handles_[index] = handle;
      stopped = stopped_;
    }
    if (stopped) handle.cancel();
  }

  void wait_for_a_place() {
    std::vector<TaskRef> oldest;
    for (auto& [group, lane] : lanes_) {
      if (lane.has_more()) oldest.emplace_back(lane.open.front().record());
    }
    ExecutorAccess::await(*AwaitState::make(std::move(oldest), 1), std::nullopt);
  }

  // All in one wait: inside a task each of them is then known to be awaited from the beginning.
  static void wait_for_all(const std::vector<TaskHandle<T>>& handles) {
    std::vector<TaskRef> open;
    for (const TaskHandle<T>& handle : handles) {
      if (handle.valid() && !handle.is_done()) open.emplace_back(handle.record());
    }
    const std::size_t need = open.size();
    if (need != 0) ExecutorAccess::await(*AwaitState::make(std::move(open), need), std::nullopt);
  }

  void cancel() {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    for (const TaskHandle<T>& handle : handles()) {
      if (handle.valid()) handle.cancel();
    }
  }

  std::vector<TaskHandle<T>> handles() {
    MutexLock lock(mutex_);
    return handles_;
  }

  TaskResult<T> never_submitted(const GroupTask<T>& task) {
    const Time now = executor_.clock().now();
    Error error{ErrorCode::kCancelled, "the batch was asked to stop before this task was submitted"};
    return {task.group(), task.task_id(), TaskStatus::kCancelled, std::nullopt, std::move(error), now, now, now};
  }

  Executor& executor_;
  std::vector<GroupTask<T>>& tasks_;
  std::map<std::string, Lane> lanes_;
  Mutex mutex_;
  std::vector<TaskHandle<T>> handles_ COHORT_GUARDED_BY(mutex_);  // By the task's place; invalid until submitted.
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort::internal

namespace cohort {

template <class T>
std::vector<TaskResult<T>> Executor::execute_all(std::vector<GroupTask<T>>& tasks, std::stop_token stop) {
  return internal::Batch<T>(*this, tasks).run(std::move(stop));
}

}  // namespace cohort
