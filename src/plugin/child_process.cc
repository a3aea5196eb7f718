#include "plugin/child_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace cohort {
namespace {

using exec_protocol::Limit;
using exec_protocol::Signal;
using exec_protocol::Specification;
using exec_protocol::Verdict;

Error failed(const std::string& what, int error) {
  return Error{is_shortage(error) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
               what + ": " + std::generic_category().message(error)};
}

struct Pipe {
  FileDescriptor out;
  FileDescriptor in;
};

Result<void> open_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed("a pipe could not be made", errno);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pipe = Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  return {};
}

// A file and not a pipe: nobody has to wait for a program that does not read it.
Result<FileDescriptor> memory_file(const char* name, const std::string& text) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (!file.is_open()) return failed("a file in memory could not be made", errno);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("a file in memory could not be written", errno);
    done += static_cast<std::size_t>(written);
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return failed("a file in memory could not be rewound", errno);
  return file;
}

void add_limit(std::string& text, Specification& head, __rlimit_resource kind, rlim_t soft, rlim_t hard) {
  rlimit now = {};
  ::getrlimit(kind, &now);
  const Limit limit{
      .kind = static_cast<int>(kind), .soft = std::min(soft, now.rlim_max), .hard = std::min(hard, now.rlim_max)};
  text.append(reinterpret_cast<const char*>(&limit), sizeof(limit));
  ++head.limits;
}

// As exec_protocol::Specification says.
std::string specification_of(const ChildRequest& request) {
  Specification head{.arguments = static_cast<std::uint32_t>(request.arguments.size() + 1),
                     .environment = static_cast<std::uint32_t>(request.environment.size())};
  std::string limits;
  add_limit(limits, head, RLIMIT_CORE, 0, 0);
  if (request.max_processes > 0) {
    add_limit(limits, head, RLIMIT_NPROC, request.max_processes, request.max_processes);
  }
  // SIGXCPU at the first, SIGKILL a second later.
  if (request.cpu_seconds > 0) add_limit(limits, head, RLIMIT_CPU, request.cpu_seconds, request.cpu_seconds + 1);
  if (request.max_memory > 0) add_limit(limits, head, RLIMIT_AS, request.max_memory, request.max_memory);
  std::string text(reinterpret_cast<const char*>(&head), sizeof(head));
  text += limits;
  const auto add = [&](const std::string& word) { text.append(word).push_back('\0'); };
  add(request.path.string());
  add(request.folder.string());
  add(request.path.string());
  for (const std::string& each : request.arguments) add(each);
  for (const std::string& each : request.environment) add(each);
  return text;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildRequest& request, ExecHelper& helper) {
  Result<FileDescriptor> specification = memory_file("cohort-program", specification_of(request));
  if (!specification) return specification.error();
  Result<FileDescriptor> input = memory_file("cohort-input", request.input);
  if (!input) return input.error();
  std::array<Pipe, 2> pipes;
  for (Pipe& each : pipes) {
    if (Result<void> opened = open_pipe(each); !opened) return opened.error();
  }
  std::array<int, 2> channel{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel.data()) != 0) {
    return failed("a socket could not be made", errno);
  }
  ChildProcess child;
  child.channel_ = FileDescriptor(channel[0]);
  const FileDescriptor theirs(channel[1]);
  child.output_ = std::move(pipes[0].out);
  child.errors_ = std::move(pipes[1].out);
  const Result<void> started = helper.start_step({.specification = specification->get(),
                                                  .channel = theirs.get(),
                                                  .input = input->get(),
                                                  .output = pipes[0].in.get(),
                                                  .errors = pipes[1].in.get()});
  if (!started) {
    child.channel_.close();  // There is nobody to wait for.
    return started.error();
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (!channel_.is_open()) return;
  signal(Signal::kKill);
  finish();
}

void ChildProcess::signal(Signal signal) const {
  static_cast<void>(::send(channel_.get(), &signal, sizeof(signal), MSG_NOSIGNAL | MSG_DONTWAIT));
}

ChildStatus ChildProcess::finish() {
  Verdict verdict;
  ssize_t got = -1;
  do {
    got = ::recv(channel_.get(), &verdict, sizeof(verdict), 0);
  } while (got < 0 && errno == EINTR);
  channel_.close();
  if (got != sizeof(verdict)) return {ChildStatus::How::kLost, 0};
  switch (verdict.how) {
    case Verdict::How::kExited: return {ChildStatus::How::kExited, verdict.code};
    case Verdict::How::kSignalled: return {ChildStatus::How::kSignalled, verdict.code};
    case Verdict::How::kNotStarted: break;
  }
  return {ChildStatus::How::kNotStarted, verdict.code};
}

}  // namespace cohort
