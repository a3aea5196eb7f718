#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// How long a new task of a group will wait: the group's ready tasks, divided by how many of them this node has started
/// per second over about the last ten minutes. It is meant for warnings, so it says nothing without a backlog or
/// during the first seconds.
///
/// Tasks whose start time has not come count as ready, so many of those make the forecast too long.
///
/// Thread-safety: thread-safe. The lock guards what is known of the groups.
class WaitForecast {
 public:
  struct Forecast {
    std::string group;
    Duration wait;
  };

  /// A claim in the group was answered, with a task or without; `more`: others of the group are ready.
  void note_claim(const std::string& group, bool has_task, bool more, Time now);
  /// The group has tasks that are due, and may not have started any: others may hold all places.
  void note_waiting(const std::string& group, Time now);
  /// Takes what the store counts. Returns the groups that new tasks will wait in for longer than `limit`, each one once
  /// until its wait has been half of that.
  [[nodiscard]] std::vector<Forecast> note_counts(const std::vector<GroupCounts>& counts, Duration limit, Time now);
  /// True while no group has a backlog.
  [[nodiscard]] bool is_idle() const {
    MutexLock lock(mutex_);
    return groups_.empty();
  }
  /// Nothing: there is no backlog, or it is too early to tell.
  [[nodiscard]] std::optional<Duration> wait(const std::string& group) const;

 private:
  struct Group {
    Time looked{};
    std::uint64_t started_since = 0;  // Since `looked`.
    double started = 0;               // Both sums fade, by half in seven minutes.
    double seconds = 0;
    bool is_told = false;
    std::optional<Duration> wait = {};
  };

  static void forecast(Group& group, std::uint64_t ready, Time now);

  mutable Mutex mutex_;
  std::map<std::string, Group, std::less<>> groups_ COHORT_GUARDED_BY(mutex_);  // Those with a backlog.
};

}  // namespace cohort
