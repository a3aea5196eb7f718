#include "exec_helper/step.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "exec_helper/process_tree.h"
#include "exec_helper/step_cgroup.h"
#include "plugin/exec_protocol.h"

namespace exec_helper {
namespace {

using namespace cohort::exec_protocol;

constexpr int kParentDied = SIGUSR1;
constexpr int kNotStarted = 127;
constexpr int kFirstPause = 5;  // Milliseconds between two looks for what is left, doubled each time.
constexpr int kLongestPause = 200;

/// A specification as it was sent, in memory.
struct Program {
  const Limit* limits = nullptr;
  unsigned limit_count = 0;
  char* path = nullptr;
  char* folder = nullptr;
  char** arguments = nullptr;
  char** environment = nullptr;
};

bool read_program(int file, Program& program) {
  struct stat size {};
  if (::fstat(file, &size) != 0 || size.st_size < static_cast<off_t>(sizeof(Specification))) return false;
  const auto bytes = static_cast<std::size_t>(size.st_size);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return false;
  const auto* const head = static_cast<const Specification*>(memory);
  char* at = static_cast<char*>(memory) + sizeof(Specification);
  program.limits = reinterpret_cast<const Limit*>(at);
  program.limit_count = head->limits;
  char* const end = static_cast<char*>(memory) + bytes;
  if (end[-1] != '\0' || head->limits > 16 || at + head->limits * sizeof(Limit) >= end) return false;
  at += head->limits * sizeof(Limit);
  const auto next = [&] {
    char* const text = at < end ? at : end - 1;
    at = text + std::strlen(text) + 1;
    return text;
  };
  const auto list = [&](unsigned count) {
    auto** const words = static_cast<char**>(std::calloc(count + 1, sizeof(char*)));
    for (unsigned i = 0; words != nullptr && i < count; ++i) words[i] = next();
    return words;
  };
  program.path = next();
  program.folder = next();
  program.arguments = list(head->arguments);
  program.environment = list(head->environment);
  return program.arguments != nullptr && program.environment != nullptr;
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
  ::sigemptyset(&action.sa_mask);
  ::sigprocmask(SIG_SETMASK, &action.sa_mask, nullptr);
}

bool place_files(const StepFiles& files, int report) {
  const int wanted[] = {files.input, files.output, files.errors, report};
  int aside[4];
  for (int i = 0; i < 4; ++i) {
    aside[i] = ::fcntl(wanted[i], F_DUPFD, 10);
    if (aside[i] < 0) return false;
  }
  for (int i = 0; i < 4; ++i) {
    if (::dup2(aside[i], i) < 0) return false;
  }
  return ::close_range(4, ~0U, 0) == 0 && ::fcntl(3, F_SETFD, FD_CLOEXEC) == 0;
}

// In the child. What goes wrong is told as an errno through `report`.
[[noreturn]] void become(const Program& program, const StepFiles& files, const StepCgroup& cgroup, int report,
                         pid_t parent) {
  const auto give_up = [](int to) {
    const int error = errno;
    static_cast<void>(!::write(to, &error, sizeof(error)));
    ::_exit(kNotStarted);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kNotStarted);
  cgroup.enter();
  reset_signals();
  if (!place_files(files, report)) give_up(report);
  if (::chdir(program.folder) != 0) give_up(3);
  for (unsigned i = 0; i < program.limit_count; ++i) {
    const rlimit value{program.limits[i].soft, program.limits[i].hard};
    if (::setrlimit(static_cast<__rlimit_resource>(program.limits[i].kind), &value) != 0) give_up(3);
  }
  ::execve(program.path, program.arguments, program.environment);
  give_up(3);
  ::_exit(kNotStarted);
}

class Step {
 public:
  Step(const StepFiles& files, unsigned long number, pid_t helper)
      : channel_(files.channel), cgroup_(number), helper_(helper) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    signals_ = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  [[noreturn]] void run(const Program& program, const StepFiles& files) {
    if (const int error = signals_ < 0 ? errno : start(program, files)) {
      verdict_ = {Verdict::How::kNotStarted, error};
    } else {
      while (reap()) wait();
    }
    cgroup_.remove();
    if (!is_lost_) static_cast<void>(::send(channel_, &verdict_, sizeof(verdict_), MSG_NOSIGNAL));
    ::_exit(0);
  }

 private:
  // 0: the program runs.
  int start(const Program& program, const StepFiles& files) {
    int report[2];
    if (::pipe2(report, O_CLOEXEC) != 0) return errno;
    const pid_t self = ::getpid();
    program_ = ::fork();
    if (program_ == 0) become(program, files, cgroup_, report[1], self);
    if (program_ < 0) return errno;
    ::close(report[1]);
    for (const int each : {files.specification, files.input, files.output, files.errors}) ::close(each);
    int error = 0;
    ssize_t got = -1;
    do {
      got = ::read(report[0], &error, sizeof(error));
    } while (got < 0 && errno == EINTR);
    ::close(report[0]);
    if (got != sizeof(error)) return 0;
    ::waitpid(program_, nullptr, 0);
    return error;
  }

  // False: nothing is left of the step.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return false;
      if (pid == 0) return true;
      if (pid != program_) continue;
      verdict_ = WIFSIGNALED(status) ? Verdict{Verdict::How::kSignalled, WTERMSIG(status)}
                                     : Verdict{Verdict::How::kExited, WEXITSTATUS(status)};
      has_ended_ = true;
      is_killing_ = true;  // What it has left behind.
    }
  }

  void wait() {
    if (is_killing_) {
      cgroup_.kill();
      signal_all(SIGKILL);
    }
    pollfd polled[] = {{signals_, POLLIN, 0}, {is_lost_ ? -1 : channel_, POLLIN, 0}};
    const int ready = ::poll(polled, 2, is_killing_ ? pause_ : -1);
    pause_ = is_killing_ && ready == 0 ? std::min(2 * pause_, kLongestPause) : kFirstPause;
    if (ready <= 0) return;
    if (polled[0].revents != 0) take_signals();
    if (polled[1].revents != 0) take_order();
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
      // (A program may send its parent this signal. Only if the helper is gone, it means that.)
      if (static_cast<int>(info.ssi_signo) != kParentDied || ::getppid() == helper_) continue;
      is_killing_ = is_lost_ = true;  // So the node takes the step for lost.
    }
  }

  void take_order() {
    Signal order{};
    const ssize_t got = ::recv(channel_, &order, sizeof(order), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got != sizeof(order)) {  // The node is gone.
      is_killing_ = is_lost_ = true;
    } else if (order == Signal::kTerminate) {
      signal_all(SIGTERM);
    } else {
      is_killing_ = true;
    }
  }

  // The program itself is named, so that it is reached even where /proc cannot be read.
  void signal_all(int signal) {
    signal_descendants(signal);
    if (!has_ended_) ::kill(program_, signal);
  }

  const int channel_;
  const StepCgroup cgroup_;
  const pid_t helper_;
  int signals_ = -1;
  pid_t program_ = -1;
  bool has_ended_ = false;
  bool is_killing_ = false;
  int pause_ = kFirstPause;
  bool is_lost_ = false;  // Nobody is to be told how it ended.
  Verdict verdict_{};
};

}  // namespace

void run_step(const StepFiles& files, unsigned long number, int helper) {
  ::prctl(PR_SET_NAME, "cohort-step");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::setpgid(0, 0);
  Step step(files, number, helper);
  ::prctl(PR_SET_PDEATHSIG, kParentDied);
  Program program;
  const bool is_good = read_program(files.specification, program);
  if (::getppid() != helper) ::_exit(0);
  if (!is_good) {
    const Verdict verdict{Verdict::How::kNotStarted, ENOMEM};
    static_cast<void>(::send(files.channel, &verdict, sizeof(verdict), MSG_NOSIGNAL));
    ::_exit(0);
  }
  step.run(program, files);
}

}  // namespace exec_helper
