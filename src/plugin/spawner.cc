#include "plugin/spawner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "plugin/signal_mask.h"

namespace cohort {
namespace {

// The child's own code. Other threads had locks when it was forked: nothing but system calls from here on.

constexpr int kNotStarted = 127;

[[noreturn]] void give_up(int report = ChildPlan::kReport) {
  const int error = errno;
  static_cast<void>(!::write(report, &error, sizeof(error)));
  ::_exit(kNotStarted);
}

void reset_signals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
  ::sigemptyset(&action.sa_mask);
  ::sigprocmask(SIG_SETMASK, &action.sa_mask, nullptr);
}

// First out of the way, then to their places: any of them may be where another one goes.
bool place_files(const std::array<int, ChildPlan::kFiles>& files) {
  std::array<int, ChildPlan::kFiles> aside{};
  for (std::size_t i = 0; i < aside.size(); ++i) {
    aside[i] = ::fcntl(files[i], F_DUPFD, ChildPlan::kFiles);
    if (aside[i] < 0) return false;
  }
  for (std::size_t i = 0; i < aside.size(); ++i) {
    if (::dup2(aside[i], static_cast<int>(i)) < 0) return false;
  }
  return ::close_range(ChildPlan::kFiles, ~0U, 0) == 0 && ::fcntl(ChildPlan::kReport, F_SETFD, FD_CLOEXEC) == 0;
}

bool is_told_to_go() {
  char word = 0;
  ssize_t got = -1;
  do {
    got = ::read(ChildPlan::kGo, &word, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1 && ::close(ChildPlan::kGo) == 0;
}

[[noreturn]] void become(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(kNotStarted);  // It died before it was asked for.
  reset_signals();
  if (!place_files(plan.files)) give_up(plan.files[ChildPlan::kReport]);
  if (!is_told_to_go()) ::_exit(kNotStarted);
  if (::chdir(plan.folder) != 0) give_up();
  for (const ChildPlan::Limit& each : plan.limits) {
    if (::setrlimit(each.kind, &each.value) != 0) give_up();
  }
  ::execve(plan.path, plan.arguments.data(), plan.environment.data());
  give_up();
}

}  // namespace

Spawner::~Spawner() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Result<void> Spawner::begin() {
  if (thread_.joinable()) return {};
  const AllSignalsBlocked blocked;  // The thread begins with this mask, and so does what it forks.
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kUnavailable, std::string("a thread that forks could not be made: ") + error.what()};
  }
  return {};
}

Result<pid_t> Spawner::spawn(const ChildPlan& plan) {
  MutexLock lock(mutex_);
  if (Result<void> begun = begin(); !begun) return begun.error();
  Order order{.plan = &plan};
  orders_.push_back(&order);
  changed_.notify_all();
  while (order.pid == 0) changed_.wait(mutex_);
  if (order.pid < 0) {
    return Error{ErrorCode::kUnavailable,
                 "a process could not be forked: " + std::generic_category().message(order.error)};
  }
  return order.pid;
}

void Spawner::run() {
  MutexLock lock(mutex_);
  while (!is_ending_) {
    if (orders_.empty()) {
      changed_.wait(mutex_);
      continue;
    }
    Order* const order = orders_.front();
    orders_.pop_front();
    lock.unlock();
    const pid_t pid = ::fork();
    if (pid == 0) become(*order->plan);
    const int error = errno;
    lock.lock();
    order->error = error;
    order->pid = pid;
    changed_.notify_all();
  }
}

}  // namespace cohort
