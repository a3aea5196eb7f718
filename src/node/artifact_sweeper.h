#pragma once

#include <filesystem>
#include <functional>
#include <thread>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// Removes the artifacts of tasks that the store has forgotten, once at the start and then every hour, on a thread of
/// its own.
///
/// Thread-safety: thread-compatible.
class ArtifactSweeper {
 public:
  /// The store must outlive it.
  ArtifactSweeper(std::filesystem::path root, TaskStore& store, Duration every = std::chrono::hours(1));
  ArtifactSweeper(const ArtifactSweeper&) = delete;
  ArtifactSweeper& operator=(const ArtifactSweeper&) = delete;
  ~ArtifactSweeper();

  /// Looks at all artifacts now, until `is_ending` says so. Gives how many tasks' artifacts were removed.
  static std::size_t sweep(const std::filesystem::path& root, TaskStore& store, const std::function<bool()>& is_ending);

 private:
  void run(Duration every);

  const std::filesystem::path root_;
  TaskStore& store_;
  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ COHORT_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace cohort
