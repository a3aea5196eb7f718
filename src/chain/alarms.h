#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Calls for groups at their times, with one alarm of the executor for all: the earliest time of each group counts.
///
/// Thread-safety: thread-safe.
class Alarms : public std::enable_shared_from_this<Alarms> {
 public:
  Alarms(Executor& executor, std::function<void(const std::string& group)> ring)
      : executor_(executor), ring_(std::move(ring)) {}

  void set(const std::string& group, Time at) {
    {
      MutexLock lock(mutex_);
      const auto [place, is_new] = at_.try_emplace(group, at);
      if (!is_new) {
        if (place->second <= at) return;
        erase(group, place->second);
        place->second = at;
      }
      groups_.emplace(at, group);
    }
    arm();
  }

  void stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    groups_.clear();
    at_.clear();
  }

 private:
  void erase(const std::string& group, Time at) COHORT_REQUIRES(mutex_) {
    for (auto [each, end] = groups_.equal_range(at); each != end; ++each) {
      if (each->second != group) continue;
      groups_.erase(each);
      return;
    }
  }

  void arm() {
    Time next{};
    {
      MutexLock lock(mutex_);
      if (stopped_ || groups_.empty() || (is_armed_ && armed_for_ <= groups_.begin()->first)) return;
      next = armed_for_ = groups_.begin()->first;
      is_armed_ = true;
    }
    executor_.call_at(next, [self = shared_from_this(), next] { self->fire(next); });
  }

  void fire(Time armed_for) {
    std::vector<std::string> due;
    {
      MutexLock lock(mutex_);
      if (armed_for == armed_for_) is_armed_ = false;
      if (stopped_) return;
      const Time now = executor_.clock().now();
      while (!groups_.empty() && groups_.begin()->first <= now) {
        due.push_back(groups_.begin()->second);
        at_.erase(groups_.begin()->second);
        groups_.erase(groups_.begin());
      }
    }
    for (const std::string& group : due) ring_(group);
    if (executor_.clock().now() >= armed_for) arm();  // Else the executor has ended.
  }

  Executor& executor_;
  const std::function<void(const std::string& group)> ring_;
  Mutex mutex_;
  std::unordered_map<std::string, Time> at_ COHORT_GUARDED_BY(mutex_);
  std::multimap<Time, std::string> groups_ COHORT_GUARDED_BY(mutex_);
  bool is_armed_ COHORT_GUARDED_BY(mutex_) = false;
  Time armed_for_ COHORT_GUARDED_BY(mutex_){};
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
};

}  // namespace cohort
