#include "plugin/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace cohort {
namespace {

Error unavailable(const std::string& what, int error) {
  return Error{ErrorCode::kUnavailable, what + ": " + std::generic_category().message(error)};
}

struct Pipe {
  FileDescriptor out;
  FileDescriptor in;
};

Result<void> open_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return unavailable("a pipe could not be made", errno);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pipe = Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  return {};
}

// A file and not a pipe: nobody has to wait for a program that does not read it.
Result<void> write_input(const std::string& text, FileDescriptor& file) {
  file = FileDescriptor(::memfd_create("cohort-input", MFD_CLOEXEC));
  if (!file.is_open()) return unavailable("a file for the standard input could not be made", errno);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return unavailable("the standard input could not be written", errno);
    done += static_cast<std::size_t>(written);
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return unavailable("the standard input could not be rewound", errno);
  return {};
}

void add_limit(ChildPlan& plan, __rlimit_resource kind, rlim_t soft, rlim_t hard) {
  rlimit now = {};
  ::getrlimit(kind, &now);
  plan.limits.push_back({kind, {std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)}});
}

ChildPlan make_plan(const ChildRequest& request) {
  ChildPlan plan;
  plan.path = request.path.c_str();
  plan.folder = request.folder.c_str();
  // execve() takes them as char* and does not write to them.
  plan.arguments.push_back(const_cast<char*>(plan.path));
  for (const std::string& each : request.arguments) plan.arguments.push_back(const_cast<char*>(each.c_str()));
  plan.arguments.push_back(nullptr);
  for (const std::string& each : request.environment) plan.environment.push_back(const_cast<char*>(each.c_str()));
  plan.environment.push_back(nullptr);
  add_limit(plan, RLIMIT_CORE, 0, 0);
  if (request.max_processes > 0) add_limit(plan, RLIMIT_NPROC, request.max_processes, request.max_processes);
  // SIGXCPU at the first, SIGKILL a second later.
  if (request.cpu_seconds > 0) add_limit(plan, RLIMIT_CPU, request.cpu_seconds, request.cpu_seconds + 1);
  if (request.max_memory > 0) add_limit(plan, RLIMIT_AS, request.max_memory, request.max_memory);
  return plan;
}

ChildStatus wait_for(pid_t pid) {
  int status = 0;
  pid_t got = -1;
  do {
    got = ::waitpid(pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got != pid) return {};
  if (WIFSIGNALED(status)) return {ChildStatus::How::kSignalled, WTERMSIG(status)};
  return {ChildStatus::How::kExited, WEXITSTATUS(status)};
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildRequest& request, Spawner& spawner, ProcessKeeper& keeper) {
  ChildPlan plan = make_plan(request);
  FileDescriptor input;
  if (Result<void> written = write_input(request.input, input); !written) return written.error();
  std::array<Pipe, 4> pipes;  // Output, errors, go, report.
  for (Pipe& each : pipes) {
    if (Result<void> opened = open_pipe(each); !opened) return opened.error();
  }
  auto& [output, errors, go, report] = pipes;
  ::fcntl(go.out.get(), F_SETFL, 0);  // The child waits for it.
  plan.files = {input.get(), output.in.get(), errors.in.get(), go.out.get(), report.in.get()};
  Result<pid_t> pid = spawner.spawn(plan);
  if (!pid) return pid.error();
  ChildProcess child(keeper);
  child.pid_ = *pid;
  child.output_ = std::move(output.out);
  child.errors_ = std::move(errors.out);
  child.go_ = std::move(go.in);
  child.report_ = std::move(report.out);
  if (Result<void> gone = child.let_go(); !gone) return gone.error();
  return child;
}

// The child reads an end of file instead, should this fail; the destructor waits for it.
Result<void> ChildProcess::let_go() {
  FileDescriptor go = std::move(go_);
  ::setpgid(pid_, pid_);  // Whoever comes first; the other one's changes nothing.
  process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.is_open()) return unavailable("a process could not be watched", errno);
  if (Result<void> kept = keeper_->add(pid_); !kept) return kept;
  is_kept_ = true;
  static_cast<void>(!::write(go.get(), "g", 1));  // The caller has the other end too, so there is no SIGPIPE.
  return {};
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : keeper_(other.keeper_),
      pid_(std::exchange(other.pid_, -1)),
      is_kept_(std::exchange(other.is_kept_, false)),
      process_(std::move(other.process_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      go_(std::move(other.go_)),
      report_(std::move(other.report_)) {}

ChildProcess::~ChildProcess() { finish(); }

void ChildProcess::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

ChildStatus ChildProcess::finish() {
  if (pid_ <= 0) return {};
  signal_group(SIGKILL);
  if (is_kept_) keeper_->remove(pid_);
  const ChildStatus status = wait_for(std::exchange(pid_, -1));
  if (const std::optional<int> error = start_error()) return {ChildStatus::How::kNotStarted, *error};
  return status;
}

std::optional<int> ChildProcess::start_error() const {
  int error = 0;
  if (::read(report_.get(), &error, sizeof(error)) != sizeof(error)) return std::nullopt;
  return error;
}

}  // namespace cohort
