#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "chain/run.h"
#include "cohort/base/mutex.h"

namespace cohort {

/// The tasks that this node has claimed: those that run, the files of those that wait here for their next attempt, and
/// the plugins that are paused for a group because a body of theirs does not end.
///
/// Thread-safety: thread-safe. One lock guards all three, so that the end of a run finds what it has to undo. Stop
/// requests are made, and folders removed, without it.
class RunTable {
 public:
  using RunRef = std::shared_ptr<Run>;

  /// Adds a run that was claimed, and gives it the file that was kept for its task.
  void add(const RunRef& run);
  /// True: the run had paused its plugin, and that pause ends with it.
  bool remove(const RunRef& run);

  [[nodiscard]] bool has(const std::string& task_id) const;
  [[nodiscard]] std::vector<RunRef> all() const;
  void stop(const std::string& task_id);
  void stop_all();

  /// Keeps the file of a task that waits for its next attempt.
  void keep(const std::string& task_id, LocalFile file, Time until);
  /// Drops the files that were kept until `now` or an earlier time. Time::max(): all.
  void drop_kept(Time now);

  /// True, once: the body of the run was due to end by `time`, and has not. Pauses its plugin for its group.
  bool abandon(const RunRef& run, Time time);
  [[nodiscard]] std::vector<std::string> paused_plugins(const std::string& group) const;

  [[nodiscard]] std::uint32_t running() const;
  [[nodiscard]] std::uint32_t kept() const;

 private:
  struct Kept {
    LocalFile file;
    Time until{};
  };

  mutable Mutex mutex_;
  std::unordered_map<std::string, RunRef> runs_ COHORT_GUARDED_BY(mutex_);                      // By task id.
  std::unordered_map<std::string, Kept> kept_ COHORT_GUARDED_BY(mutex_);                        // By task id.
  std::map<std::string, std::multiset<std::string>> paused_plugins_ COHORT_GUARDED_BY(mutex_);  // By group.
};

}  // namespace cohort
