#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/result.h"
#include "plugin/exec_protocol.h"
#include "plugin/file_descriptor.h"

namespace cohort {

/// The node's side of the exec helper (apps/exec_helper): one small process that starts the programs of all steps, so
/// that a start costs the same whatever the memory of this process. If somebody kills the helper, the next start makes
/// a new one.
///
/// Thread-safety: thread-safe. Calls may block for a few seconds, should the helper not be able to run.
class ExecHelper {
 public:
  /// What a step is started with, in the order of exec_protocol::Order::kStart.
  struct StepFiles {
    int specification = -1;
    int channel = -1;
    int input = -1;
    int output = -1;
    int errors = -1;
  };

  /// `path` empty: find_exec_helper(). kUnavailable: it is not there or does not start.
  [[nodiscard]] static Result<std::unique_ptr<ExecHelper>> start(const std::filesystem::path& path, bool use_cgroups);
  ExecHelper(const ExecHelper&) = delete;
  ExecHelper& operator=(const ExecHelper&) = delete;
  ~ExecHelper();

  /// Hands a step over. kRejected: the helper, or this process, has run out of something. kUnavailable: there is no
  /// helper and none could be started.
  Result<void> start_step(const StepFiles& files) COHORT_EXCLUDES(mutex_);
  /// The helper keeps a copy of this descriptor open until every step has ended, also after the death of this process.
  Result<void> hold(int descriptor) COHORT_EXCLUDES(mutex_);

  [[nodiscard]] pid_t pid() const COHORT_EXCLUDES(mutex_);
  /// Whether the helper with this number is the current one and has not ended.
  [[nodiscard]] bool is_alive(pid_t pid) const COHORT_EXCLUDES(mutex_);
  [[nodiscard]] bool has_cgroups() const COHORT_EXCLUDES(mutex_);

 private:
  ExecHelper(std::filesystem::path path, bool use_cgroups) : path_(std::move(path)), use_cgroups_(use_cgroups) {}
  Result<void> begin() COHORT_REQUIRES(mutex_);
  /// Waits for its end, a while if it may have steps, and then kills it.
  void dismiss(bool at_once) COHORT_REQUIRES(mutex_);
  /// 0, or an errno.
  int send(exec_protocol::Order order, const int* files, std::size_t count) COHORT_REQUIRES(mutex_);
  Result<void> send_or_replace(exec_protocol::Order order, const int* files, std::size_t count) COHORT_REQUIRES(mutex_);

  const std::filesystem::path path_;
  const bool use_cgroups_;
  mutable Mutex mutex_;
  FileDescriptor socket_ COHORT_GUARDED_BY(mutex_);
  FileDescriptor held_ COHORT_GUARDED_BY(mutex_);
  pid_t pid_ COHORT_GUARDED_BY(mutex_) = -1;
  bool has_cgroups_ COHORT_GUARDED_BY(mutex_) = false;
};

/// Where the helper is: $COHORT_EXEC_HELPER, beside this program, in ../libexec/cohort beside it, or where it was built
/// or installed. kUnavailable lists the places.
[[nodiscard]] Result<std::filesystem::path> find_exec_helper();

}  // namespace cohort
