#include "plugin/process_keeper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "cohort/base/log.h"
#include "plugin/signal_mask.h"

namespace cohort {
namespace {

constexpr timeval kLongestWait{.tv_sec = 1, .tv_usec = 0};
constexpr int kTriesToBeHeard = 10;  // As often as that it is waited for when it is made.

struct Message {
  pid_t group = 0;
  std::int32_t is_there = 0;
};

Error unavailable(const std::string& what, int error) {
  return Error{ErrorCode::kUnavailable, what + ": " + std::generic_category().message(error)};
}

// --- The keeper's own code. Other threads had locks when it was forked: nothing but system calls from here on.

std::array<pid_t, ProcessKeeper::kMaxGroups> kept_groups;  // All zero but in the keeper.

void take(const Message& message) {
  const pid_t from = message.is_there != 0 ? 0 : message.group;
  const pid_t to = message.is_there != 0 ? message.group : 0;
  for (pid_t& each : kept_groups) {
    if (each != from) continue;
    each = to;
    return;
  }
}

// All signals were blocked when it was forked, and stay so: only SIGKILL ends it early.
[[noreturn]] void keep(int socket) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "cohort-keeper");
  if (::dup2(socket, 0) < 0 || ::close_range(1, ~0U, 0) != 0) ::_exit(1);
  Message message;
  if (::send(0, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message)) ::_exit(1);
  for (;;) {
    const ssize_t got = ::recv(0, &message, sizeof(message), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(message)) break;
    take(message);
  }
  for (const pid_t each : kept_groups) {
    if (each > 1) ::kill(-each, SIGKILL);
  }
  ::_exit(0);
}

// --- The other side.

bool is_heard(int socket) {
  Message message;
  for (int i = 0; i < kTriesToBeHeard; ++i) {
    const ssize_t got = ::recv(socket, &message, sizeof(message), 0);
    if (got >= 0) return got == sizeof(message);
    if (errno != EAGAIN && errno != EINTR) return false;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<ProcessKeeper>> ProcessKeeper::start() {
  std::unique_ptr<ProcessKeeper> keeper(new ProcessKeeper());
  MutexLock lock(keeper->mutex_);
  if (Result<void> begun = keeper->begin(); !begun) return begun.error();
  lock.unlock();
  return keeper;
}

ProcessKeeper::~ProcessKeeper() {
  MutexLock lock(mutex_);
  dismiss();
}

Result<void> ProcessKeeper::begin() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable("a socket for the keeper of processes could not be made", errno);
  }
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &kLongestWait, sizeof(kLongestWait));
  ::setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof(kLongestWait));
  {
    const AllSignalsBlocked blocked;
    pid_ = ::fork();
    if (pid_ == 0) keep(theirs.get());
  }
  if (pid_ < 0) return unavailable("the keeper of processes could not be forked", errno);
  process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  socket_ = std::move(ours);
  if (process_.is_open() && is_heard(socket_.get())) return {};
  dismiss();
  return Error{ErrorCode::kUnavailable, "the keeper of processes did not start; it needs Linux 5.9 or later"};
}

// Killed first: a keeper that lags behind must not take the end of its socket for the end of this process.
void ProcessKeeper::dismiss() {
  if (process_.is_open()) ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  socket_.close();
  process_.close();
  if (pid_ > 0) {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

Result<void> ProcessKeeper::tell(pid_t group, bool is_there) {
  const Message message{.group = group, .is_there = is_there ? 1 : 0};
  if (!socket_.is_open()) return unavailable("there is no keeper of processes", ESRCH);
  ssize_t sent = -1;
  do {
    sent = ::send(socket_.get(), &message, sizeof(message), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof(message) ? Result<void>() : unavailable("the keeper of processes does not listen", errno);
}

Result<void> ProcessKeeper::tell_or_replace(pid_t group, bool is_there) {
  const Result<void> told = tell(group, is_there);
  if (told) return {};
  COHORT_LOG(kWarning, "plugin", told.error().message + "; a new one is made");
  dismiss();
  if (Result<void> begun = begin(); !begun) return begun;
  for (const pid_t each : groups_) {
    if (Result<void> again = tell(each, true); !again) return again;
  }
  return {};
}

Result<void> ProcessKeeper::add(pid_t group) {
  MutexLock lock(mutex_);
  if (groups_.size() >= kMaxGroups) {
    return Error{ErrorCode::kRejected, "there are " + std::to_string(kMaxGroups) + " programs running; later"};
  }
  groups_.insert(group);
  Result<void> told = tell_or_replace(group, true);
  if (!told) groups_.erase(group);
  return told;
}

void ProcessKeeper::remove(pid_t group) {
  MutexLock lock(mutex_);
  if (groups_.erase(group) == 0) return;
  if (const Result<void> told = tell_or_replace(group, false); !told) {
    COHORT_LOG(kWarning, "plugin", told.error().message + "; the next program that starts tries again");
  }
}

pid_t ProcessKeeper::pid() const {
  MutexLock lock(mutex_);
  return pid_;
}

}  // namespace cohort
