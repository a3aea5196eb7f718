#include "cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

// A handler may do nearly nothing, and asking a stop_source is too much. So it writes a byte into a pipe, and a thread
// that reads the pipe asks.

namespace cohort {
namespace {

std::atomic<int> write_end{-1};
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction before {};  // There is one Interrupt at a time.

constexpr char kInterrupted = 'i';
constexpr char kOver = 'o';

void write_byte(int file, char byte) {
  while (::write(file, &byte, 1) < 0 && errno == EINTR) {
  }
}

void on_interrupt(int /*signal*/) {
  const int error = errno;
  if (const int file = write_end.load(); file >= 0) write_byte(file, kInterrupted);
  errno = error;
}

}  // namespace

Interrupt::Interrupt() {
  if (::pipe2(pipe_.data(), O_CLOEXEC) != 0) return;  // Then Ctrl-C does what it always does.
  write_end.store(pipe_[1]);
  listener_ = std::thread([this] { listen(); });
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  ::sigaction(SIGINT, &action, &before);
}

Interrupt::~Interrupt() {
  if (!listener_.joinable()) return;
  ::sigaction(SIGINT, &before, nullptr);
  write_end.store(-1);
  write_byte(pipe_[1], kOver);
  listener_.join();
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

void Interrupt::listen() {
  for (char byte = 0; byte != kOver;) {
    const ssize_t got = ::read(pipe_[0], &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1) return;
    if (byte == kInterrupted) stop_.request_stop();
  }
}

}  // namespace cohort
