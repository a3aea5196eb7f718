// The exec helper: starts the programs of a node's exec steps.
//
//   cohort-exec-helper [--no-cgroups]     its standard input is a socket from the node
//
// 1. The node starts one helper. The helper is small, so forking it costs the same whatever the node's memory.
// 2. For each step the helper forks a process (step.h) that is the subreaper of that step: descendants that call
// setsid()
//    or fork twice are still below it, and can be found and killed. The helper is a subreaper too, for the case that
//    somebody kills a step's process: its orphans come here and are killed.
// 3. Each step's process holds a channel to the node. It kills its step when the channel ends, so nothing outlives a
// node,
//    however the node dies. It is told by PR_SET_PDEATHSIG when the helper dies, and kills its step then as well.
// 4. The helper and the steps' processes keep the descriptor of the node's locked folder. So no other node can start in
//    the folder before the last descendant is gone.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exec_helper/process_tree.h"
#include "exec_helper/step.h"
#include "exec_helper/step_cgroup.h"
#include "plugin/exec_protocol.h"

namespace exec_helper {
namespace {

using namespace cohort::exec_protocol;

constexpr int kControl = 0;
constexpr int kMaxSteps = 16'384;

class Helper {
 public:
  explicit Helper(int signals) : signals_(signals) {}

  int run() {
    while (!is_ending_ || count_ > 0 || is_cleaning_) {
      pollfd polled[] = {{signals_, POLLIN, 0}, {is_ending_ ? -1 : kControl, POLLIN, 0}};
      ::poll(polled, 2, is_cleaning_ ? 10 : -1);
      if (polled[0].revents != 0) drain_signals();
      reap();
      if (is_cleaning_) clean();
      if (polled[1].revents != 0) take_order();
    }
    remove_cgroup_base();
    return 0;
  }

 private:
  void drain_signals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof(info)) == sizeof(info)) {
    }
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return;
      const auto at = std::find(steps_, steps_ + count_, pid) - steps_;
      if (at == count_) continue;
      const int channel = channels_[at];
      --count_;
      steps_[at] = steps_[count_];
      channels_[at] = channels_[count_];
      if (WIFSIGNALED(status)) {  // Its orphans have come here. The node is told when they are gone.
        is_cleaning_ = true;
        lost_[lost_count_++] = channel;
      } else {
        ::close(channel);
      }
    }
  }

  void clean() {
    if (signal_descendants(SIGKILL, steps_, count_)) return;
    is_cleaning_ = false;
    while (lost_count_ > 0) ::close(lost_[--lost_count_]);
  }

  void take_order() {
    Order order{};
    int files[kStartFiles];
    int count = 0;
    if (!receive(order, files, count)) return;
    if (order == Order::kHold && count == 1) return;  // Kept open.
    if (order == Order::kStart && count == kStartFiles) {
      if (start({files[0], files[1], files[2], files[3], files[4]})) files[1] = -1;  // The channel is kept.
    }
    for (int i = 0; i < count; ++i) {
      if (files[i] >= 0) ::close(files[i]);
    }
  }

  bool receive(Order& order, int* files, int& count) {
    iovec piece{&order, sizeof(order)};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kStartFiles)];
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = CMSG_LEN(sizeof(int) * kStartFiles);
    const ssize_t got = ::recvmsg(kControl, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    // A descriptor that did not fit is lost: the node starts another helper.
    if (got <= 0 || (message.msg_flags & MSG_CTRUNC) != 0) {
      is_ending_ = true;
      ::shutdown(kControl, SHUT_RDWR);
      return false;
    }
    const cmsghdr* const given = CMSG_FIRSTHDR(&message);
    if (given != nullptr && given->cmsg_type == SCM_RIGHTS) {
      count = static_cast<int>((given->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      std::memcpy(files, CMSG_DATA(given), static_cast<std::size_t>(count) * sizeof(int));
    }
    return true;
  }

  // Until the step is reaped and its orphans are gone, this process holds its channel as well. So the node never takes
  // a step for ended while something of it lives.
  bool start(const StepFiles& files) {
    const pid_t self = ::getpid();
    int error = EAGAIN;
    if (count_ + lost_count_ < kMaxSteps) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::close(kControl);
        ::close(signals_);
        for (int i = 0; i < count_; ++i) ::close(channels_[i]);
        for (int i = 0; i < lost_count_; ++i) ::close(lost_[i]);
        run_step(files, number_, self);
      }
      error = errno;
      ++number_;
      if (pid > 0) {
        steps_[count_] = pid;
        channels_[count_++] = files.channel;
        return true;
      }
    }
    const Verdict verdict{Verdict::How::kNotStarted, error};
    static_cast<void>(::send(files.channel, &verdict, sizeof(verdict), MSG_NOSIGNAL));
    return false;
  }

  const int signals_;
  bool is_ending_ = false;    // The node is gone, or needs no helper any more.
  bool is_cleaning_ = false;  // There may be orphans of a step's process that was killed.
  unsigned long number_ = 0;
  pid_t steps_[kMaxSteps] = {};
  int channels_[kMaxSteps] = {};
  int count_ = 0;
  int lost_[kMaxSteps] = {};  // Channels of steps' processes that were killed, until their orphans are gone.
  int lost_count_ = 0;
};

int help(int to) {
  static constexpr char kText[] = "cohort-exec-helper runs the programs of a Cohort node and is started by the node.\n";
  static_cast<void>(!::write(to, kText, sizeof(kText) - 1));
  return to == STDOUT_FILENO ? 0 : 2;
}

int main(int count, char** words) {
  if (count > 1 && std::strcmp(words[1], "--help") == 0) return help(STDOUT_FILENO);
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(kControl, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return help(STDERR_FILENO);
  ::close_range(1, ~0U, 0);
  const int nothing = ::open("/dev/null", O_RDWR);  // 1 and 2: no descriptor of a step takes these places.
  if (nothing != 1 || ::dup(nothing) != 2) return 1;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signals = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 1;
  const bool wants_cgroups = count < 2 || std::strcmp(words[1], "--no-cgroups") != 0;
  const Hello hello{.has_cgroup = wants_cgroups && make_cgroup_base() ? 1U : 0U};
  if (::send(kControl, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) return 1;
  static Helper helper(signals);
  return helper.run();
}

}  // namespace
}  // namespace exec_helper

int main(int count, char** words) { return exec_helper::main(count, words); }
