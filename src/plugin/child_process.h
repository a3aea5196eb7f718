#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "plugin/file_descriptor.h"
#include "plugin/process_keeper.h"
#include "plugin/spawner.h"

namespace cohort {

/// What to run, and within what. A limit of 0: as in this process.
struct ChildRequest {
  std::filesystem::path path = {};
  std::vector<std::string> arguments = {};    ///< Without its own name.
  std::vector<std::string> environment = {};  ///< All of it, as NAME=VALUE.
  std::filesystem::path folder = {};          ///< Absolute; where it begins.
  std::string input = {};                     ///< Its standard input, a file that has been written already.
  std::uint64_t max_memory = 0;
  std::uint64_t max_processes = 0;
  std::uint64_t cpu_seconds = 0;
};

/// How a child ended.
struct ChildStatus {
  enum class How : std::uint8_t {
    kExited,      ///< `code` is its exit code.
    kSignalled,   ///< `code` is the signal.
    kNotStarted,  ///< The program could not be run; `code` is the errno.
    kUnknown,     ///< Somebody else in this process has waited for it, or SIGCHLD is ignored.
  };
  How how = How::kUnknown;
  int code = 0;
};

/// A program that runs in a process group of its own, with its output and errors to read from here.
///
/// 1. Its process is forked, made the leader of its group and waits. It dies with this process: it is sent SIGKILL, and
///    where it has not asked for that yet it finds its parent gone or reads an end of file instead of the word to go.
/// 2. The keeper is told of the group. Only then the child is told to go, and executes the program.
/// 3. When it has ended it stays a zombie, so its number stays its own, until what is left of the group has been sent
///    SIGKILL and the keeper has been told. Nothing escapes: a process with SIGKILL pending cannot fork. What has left
///    the group by setsid() or setpgid() is not followed.
///
/// Thread-safety: thread-compatible.
class ChildProcess {
 public:
  /// Spawner and keeper must outlive it. kRejected and kUnavailable: it may pass.
  [[nodiscard]] static Result<ChildProcess> start(const ChildRequest& request, Spawner& spawner, ProcessKeeper& keeper);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills it, if finish() was not called, and waits for that.
  ~ChildProcess();

  /// To poll: readable when the program has ended.
  [[nodiscard]] int process() const { return process_.get(); }
  /// Not blocking.
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int errors() const { return errors_.get(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

  void signal_group(int signal) const;
  /// Kills what is left of the group, waits for the program and says how it ended. Call it when process() is readable:
  /// else it kills the program. What is in output() and errors() can still be read.
  ChildStatus finish();

 private:
  explicit ChildProcess(ProcessKeeper& keeper) : keeper_(&keeper) {}
  Result<void> let_go();
  [[nodiscard]] std::optional<int> start_error() const;

  ProcessKeeper* keeper_;
  pid_t pid_ = -1;
  bool is_kept_ = false;
  FileDescriptor process_;
  FileDescriptor output_;
  FileDescriptor errors_;
  FileDescriptor go_;
  FileDescriptor report_;  // An errno, when the program could not be run.
};

}  // namespace cohort
