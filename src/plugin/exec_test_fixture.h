#pragma once

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cohort/plugin/exec_plugin.h"
#include "plugin/file_descriptor.h"

namespace cohort {

inline constexpr int kMillisecondsToHang = 60'000;  // Never reached unless something is broken.

/// Whether a process ends; by its end, not by its being waited for.
inline bool ends(pid_t pid) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return errno == ESRCH;
  pollfd polled{process.get(), POLLIN, 0};
  return ::poll(&polled, 1, kMillisecondsToHang) == 1;
}

/// Whether a process has ended already.
inline bool has_ended(pid_t pid) {
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return errno == ESRCH;
  pollfd polled{process.get(), POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

/// A named pipe by which scripts say how far they are.
class Fifo {
 public:
  explicit Fifo(std::filesystem::path path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Blocks until there is one.
  std::string line() {
    std::string text;
    char each = 0;
    pollfd polled{file_.get(), POLLIN, 0};
    while (each != '\n' && ::poll(&polled, 1, kMillisecondsToHang) == 1 && ::read(file_.get(), &each, 1) == 1) {
      if (each != '\n') text += each;
    }
    EXPECT_EQ(each, '\n') << "the script did not say how far it is";
    return text;
  }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

/// A folder for scripts and what they write, and a task whose step runs them. When a test ends there is no file
/// descriptor, no process and no folder left of what it ran.
class ExecTest : public testing::Test {
 protected:
  void SetUp() override {
    files_before_ = open_files();
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(folder_ / "tmp");
    if (const char* before = ::getenv("TMPDIR")) temporary_before_ = before;
    ::setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
    task_.request.id = "task-1";
    task_.request.group = "tenant";
    task_.request.steps.push_back({.plugin = "exec"});
    task_.attempt = 1;
  }
  void TearDown() override {
    plugin_.reset();
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp")) << "a folder was left behind";
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process was left behind";
    EXPECT_EQ(open_files(), files_before_);
    temporary_before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", temporary_before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  static std::ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  }
  std::filesystem::path write_file(const std::string& name, const std::string& text, bool executable = true) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    if (executable) std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// A program "it", of a shell script that finds its OUT in the environment.
  ExecProgram script(const std::string& body) {
    return {.path = write_file("it.sh", "#!/bin/sh\n" + body + "\n"),
            .environment = {{"OUT", (folder_ / "out").string()}}};
  }
  [[nodiscard]] std::string written() const {
    std::ifstream file(folder_ / "out");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void offer(ExecProgram program) {
    Result<std::shared_ptr<Plugin>> made = make_exec_plugin(
        {.programs = {{"it", std::move(program)}}, .artifacts = folder_ / "kept", .use_cgroups = use_cgroups_});
    ASSERT_TRUE(made.ok()) << made.error();
    plugin_ = *std::move(made);
  }
  /// Runs it as the current step of `task_`; what it logged is in `lines_`.
  PluginResult run(nlohmann::json parameters = nlohmann::json::object(), const std::filesystem::path& file = {},
                   std::stop_token stop = {}) {
    parameters["program"] = "it";
    task_.request.steps.front().parameters = parameters.dump();
    StepContext context(task_, file, std::move(stop));
    PluginResult result = plugin_->run(context);
    if (auto report = context.take_report()) lines_ = report->lines;
    return result;
  }
  PluginResult run_script(const std::string& body) {
    offer(script(body));
    return run();
  }

  std::filesystem::path folder_;
  ChainTask task_;
  std::shared_ptr<Plugin> plugin_;
  std::vector<std::string> lines_;
  bool use_cgroups_ = true;

 private:
  std::ptrdiff_t files_before_ = 0;
  std::string temporary_before_;
};

}  // namespace cohort
