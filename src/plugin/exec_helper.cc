#include "plugin/exec_helper.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/log.h"
#include "plugin/signal_mask.h"

namespace cohort {
namespace {

using namespace exec_protocol;

constexpr timeval kLongestWait{.tv_sec = 5, .tv_usec = 0};
constexpr Duration kPatience = std::chrono::seconds(10);

Error failed(const std::string& what, int error) {
  return Error{is_shortage(error) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
               what + ": " + std::generic_category().message(error)};
}

// By posix_spawn, which does not copy the memory of this process.
int spawn(const std::filesystem::path& path, bool use_cgroups, int socket, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  sigset_t signals;
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // A signal from the terminal is for the node.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = path.string();
  std::string option = "--no-cgroups";
  std::array<char*, 3> words = {name.data(), use_cgroups ? nullptr : option.data(), nullptr};
  std::array<char*, 1> environment = {nullptr};
  const AllSignalsBlocked blocked;
  const int error = ::posix_spawn(&pid, name.c_str(), &files, &attributes, words.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

Result<std::filesystem::path> find_exec_helper() {
  constexpr const char* kName = "cohort-exec-helper";
  std::vector<std::filesystem::path> places;
  if (const char* const said = ::getenv("COHORT_EXEC_HELPER"); said != nullptr && *said != '\0') {
    places.emplace_back(said);
  }
  std::error_code failed_to_read;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed_to_read).parent_path();
  if (!failed_to_read) {
    places.push_back(self / kName);
    places.push_back(self / "../libexec/cohort" / kName);
  }
  places.emplace_back(COHORT_EXEC_HELPER_INSTALLED);
  places.emplace_back(COHORT_EXEC_HELPER_BUILT);
  std::string looked;
  for (const std::filesystem::path& each : places) {
    if (::access(each.c_str(), X_OK) == 0) return each;
    looked += (looked.empty() ? "'" : ", '") + each.string() + "'";
  }
  return Error{ErrorCode::kUnavailable,
               "the program cohort-exec-helper, which runs the programs of exec steps, was not found (looked at " +
                   looked + "); install it, or name it with COHORT_EXEC_HELPER"};
}

Result<std::unique_ptr<ExecHelper>> ExecHelper::start(const std::filesystem::path& path, bool use_cgroups) {
  std::filesystem::path found = path;
  if (found.empty()) {
    Result<std::filesystem::path> looked = find_exec_helper();
    if (!looked) return looked.error();
    found = *std::move(looked);
  }
  std::unique_ptr<ExecHelper> helper(new ExecHelper(std::move(found), use_cgroups));
  MutexLock lock(helper->mutex_);
  if (Result<void> begun = helper->begin(); !begun) return begun.error();
  lock.unlock();
  return helper;
}

ExecHelper::~ExecHelper() {
  MutexLock lock(mutex_);
  dismiss(false);
}

Result<void> ExecHelper::begin() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return failed("a socket for the exec helper could not be made", errno);
  }
  FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &kLongestWait, sizeof(kLongestWait));
  ::setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &kLongestWait, sizeof(kLongestWait));
  if (const int error = spawn(path_, use_cgroups_, theirs.get(), pid_)) {
    pid_ = -1;
    return failed("the exec helper '" + path_.string() + "' could not be started", error);
  }
  socket_ = std::move(ours);
  theirs.close();
  Hello hello{.protocol = 0};
  ssize_t got = -1;
  do {
    got = ::recv(socket_.get(), &hello, sizeof(hello), 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(hello) || hello.protocol != kProtocol) {
    dismiss(true);
    return Error{ErrorCode::kUnavailable, "the exec helper '" + path_.string() +
                                              "' did not start as it should; it must be of the same version, and needs "
                                              "Linux 5.9 or later"};
  }
  has_cgroups_ = hello.has_cgroup != 0;
  if (!held_.is_open()) return {};
  const int held = held_.get();
  const int error = send(Order::kHold, &held, 1);
  if (error == 0) return {};
  dismiss(true);  // Without the lock it is not to be used.
  return failed("the exec helper does not listen", error);
}

// The helper ends when its socket does and its last step has ended. A step whose helper is killed kills its programs.
void ExecHelper::dismiss(bool at_once) {
  socket_.close();
  if (pid_ > 0) {
    const Time until = system_clock().now() + (at_once ? Duration::zero() : kPatience);
    pid_t ended = 0;
    while ((ended = ::waitpid(pid_, nullptr, WNOHANG)) == 0 && system_clock().now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (ended == 0) {
      ::kill(pid_, SIGKILL);
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  pid_ = -1;
}

bool ExecHelper::is_alive(pid_t pid) const {
  MutexLock lock(mutex_);
  if (pid != pid_ || pid <= 0) return false;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int ExecHelper::send(Order order, const int* files, std::size_t count) {
  if (!socket_.is_open()) return EPIPE;
  iovec piece{&order, sizeof(order)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kStartFiles)> space{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int) * count);
  std::memcpy(CMSG_DATA(head), files, sizeof(int) * count);
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

Result<void> ExecHelper::send_or_replace(Order order, const int* files, std::size_t count) {
  int error = send(order, files, count);
  if (error == EPIPE || error == ECONNRESET || error == ENOTCONN) {
    COHORT_LOG(kWarning, "plugin", "the exec helper is gone; a new one is started", {"pid", pid_});
    dismiss(true);
    if (Result<void> begun = begin(); !begun) return begun;
    error = send(order, files, count);
  }
  if (error == 0) return {};
  return failed("the exec helper does not listen", error == ETOOMANYREFS ? EMFILE : error);
}

Result<void> ExecHelper::start_step(const StepFiles& files) {
  const std::array<int, kStartFiles> all = {files.specification, files.channel, files.input, files.output,
                                            files.errors};
  MutexLock lock(mutex_);
  return send_or_replace(Order::kStart, all.data(), all.size());
}

Result<void> ExecHelper::hold(int descriptor) {
  MutexLock lock(mutex_);
  held_ = FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  if (!held_.is_open()) return failed("the lock of the folder could not be handed to the exec helper", errno);
  const int held = held_.get();
  return send_or_replace(Order::kHold, &held, 1);
}

pid_t ExecHelper::pid() const {
  MutexLock lock(mutex_);
  return pid_;
}

bool ExecHelper::has_cgroups() const {
  MutexLock lock(mutex_);
  return has_cgroups_;
}

}  // namespace cohort
