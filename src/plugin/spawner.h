#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <thread>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/result.h"

namespace cohort {

/// All that a child needs to know, made before the fork: after it there is no memory to be had.
struct ChildPlan {
  static constexpr int kFiles = 5;
  static constexpr int kGo = 3;
  static constexpr int kReport = 4;
  struct Limit {
    __rlimit_resource kind = RLIMIT_CORE;
    rlimit value = {};
  };

  pid_t parent = ::getpid();
  const char* path = nullptr;
  const char* folder = nullptr;
  std::vector<char*> arguments = {};
  std::vector<char*> environment = {};
  std::array<int, kFiles> files = {};  // Where its files 0 to 4 are now: input, output, errors, go, report.
  std::vector<Limit> limits = {};
};

/// Forks, always on the same thread: a child that asks to be told of its parent's death is told of the death of the
/// thread that forked it. The thread begins with the first child and ends with the object, which no child may outlive.
///
/// Thread-safety: thread-safe.
class Spawner {
 public:
  Spawner() = default;
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;
  ~Spawner();

  /// Blocks until it is forked. kUnavailable: there are no more threads or processes to be had.
  Result<pid_t> spawn(const ChildPlan& plan) COHORT_EXCLUDES(mutex_);

 private:
  struct Order {
    const ChildPlan* plan = nullptr;
    pid_t pid = 0;  // 0: not yet.
    int error = 0;
  };

  Result<void> begin() COHORT_REQUIRES(mutex_);
  void run() COHORT_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::deque<Order*> orders_ COHORT_GUARDED_BY(mutex_);  // One for each thread that waits in spawn().
  bool is_ending_ COHORT_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Set under the lock, joined without it by the destructor.
};

}  // namespace cohort
