#pragma once

// The program as people use it: started, spoken to, killed.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// A child process with its standard output and error in one pipe. Killed with the object.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (process_ > 0) {
      send(SIGKILL);
      static_cast<void>(wait());
    }
    if (output_ >= 0) ::close(output_);
  }

  /// What it has said up to and including this text; "" when it ends before.
  std::string read_until(const std::string& text) {
    std::size_t at = 0;
    while ((at = said_.find(text)) == std::string::npos) {
      if (!read()) return "";
    }
    return said_.substr(0, at + text.size());
  }
  [[nodiscard]] const std::string& said() const { return said_; }
  void send(int signal) const { ::kill(process_, signal); }
  /// Its exit code, or minus the signal that ended it.
  int wait() {
    while (read()) {
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  bool read() {
    char bytes[4096];
    const ssize_t got = ::read(output_, bytes, sizeof(bytes));
    if (got <= 0) return false;
    said_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  pid_t process_ = -1;
  int output_ = -1;
  std::string said_;
};

inline void write_file(const std::filesystem::path& path, const std::string& text, bool executable = false) {
  std::ofstream(path) << text;
  if (executable) std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace cohort
