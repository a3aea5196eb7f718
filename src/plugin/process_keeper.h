#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <set>

#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "plugin/file_descriptor.h"

namespace cohort {

/// Kills process groups when this process dies, however it dies.
///
/// 1. The keeper is a small process, forked and not executed. It has a table of groups and one file descriptor: its end
///    of a socket. The other end is here, and nowhere else for longer than a fork takes until it closes its files.
/// 2. So the keeper reads an end of file when this process is gone, and not before. Then it sends SIGKILL to every
/// group
///    in its table, and ends. What was sent before is read before.
/// 3. A group is added before a program may begin in it, and removed before its leader is waited for: as long as the
///    keeper knows a number it belongs to that group and to no other.
///
/// It is forked when it is made, because it keeps the memory of that moment: make it early. Should somebody kill it,
/// the next call makes a new one.
///
/// Thread-safety: thread-safe. Calls may block for a second, should the keeper not be able to run.
class ProcessKeeper {
 public:
  static constexpr std::size_t kMaxGroups = 4096;

  /// Returns when the keeper has closed all files of this process. kUnavailable: it could not be made.
  [[nodiscard]] static Result<std::unique_ptr<ProcessKeeper>> start();
  ProcessKeeper(const ProcessKeeper&) = delete;
  ProcessKeeper& operator=(const ProcessKeeper&) = delete;
  ~ProcessKeeper();

  /// kRejected: it has kMaxGroups. kUnavailable: there is no keeper, and none could be made.
  Result<void> add(pid_t group) COHORT_EXCLUDES(mutex_);
  void remove(pid_t group) COHORT_EXCLUDES(mutex_);
  /// The keeper's own number.
  [[nodiscard]] pid_t pid() const COHORT_EXCLUDES(mutex_);

 private:
  ProcessKeeper() = default;
  Result<void> begin() COHORT_REQUIRES(mutex_);
  void dismiss() COHORT_REQUIRES(mutex_);
  Result<void> tell(pid_t group, bool is_there) COHORT_REQUIRES(mutex_);
  Result<void> tell_or_replace(pid_t group, bool is_there) COHORT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::set<pid_t> groups_ COHORT_GUARDED_BY(mutex_);
  FileDescriptor socket_ COHORT_GUARDED_BY(mutex_);
  FileDescriptor process_ COHORT_GUARDED_BY(mutex_);  // A pidfd: it never means another process.
  pid_t pid_ COHORT_GUARDED_BY(mutex_) = -1;
};

}  // namespace cohort
