#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "plugin/exec_helper.h"
#include "plugin/file_descriptor.h"

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
    kLost,        ///< The exec helper died, and the program was killed.
  };
  How how = How::kLost;
  int code = 0;
};

/// A program that the exec helper runs, with its output and errors to read from here. When it has ended, nothing is
/// left of its descendants, wherever they went.
///
/// Thread-safety: thread-compatible.
class ChildProcess {
 public:
  /// kRejected: this process or the helper is short of something. kUnavailable: there is no helper.
  [[nodiscard]] static Result<ChildProcess> start(const ChildRequest& request, ExecHelper& helper);
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills it, if finish() was not called, and waits for that.
  ~ChildProcess();

  /// To poll: readable when the program and all its descendants have ended.
  [[nodiscard]] int process() const { return channel_.get(); }
  /// Not blocking.
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int errors() const { return errors_.get(); }

  /// Asks all its processes to end (SIGTERM), or kills them (SIGKILL).
  void signal(exec_protocol::Signal signal) const;
  /// Waits for the end and says how it was. What is in output() and errors() can still be read.
  ChildStatus finish();

 private:
  ChildProcess() = default;

  FileDescriptor channel_;
  FileDescriptor output_;
  FileDescriptor errors_;
};

}  // namespace cohort
