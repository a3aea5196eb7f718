#include "plugin/child_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kChunk = 16U << 10U;
constexpr std::size_t kMaxPipeBytes = 1U << 20U;  // More than that no pipe holds, unless its user is privileged.

enum class Got : std::uint8_t { kSome, kNothingYet, kEnd };

class Watch {
 public:
  Watch(ChildProcess child, const WatchOptions& options, int stop_event)
      : child_(std::move(child)), options_(options), stop_event_(stop_event) {
    polled_[kProcess] = {child_.process(), POLLIN, 0};
    polled_[kOutput] = {child_.output(), POLLIN, 0};
    polled_[kErrors] = {child_.errors(), POLLIN, 0};
    polled_[kStop] = {stop_event_, POLLIN, 0};
  }

  Result<ChildEnd> run() {
    for (;;) {
      const int ready = ::poll(polled_.data(), polled_.size(), milliseconds_to_kill());
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) {
        return Error{is_shortage(errno) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
                     "a process could not be waited for: " + std::generic_category().message(errno)};
      }
      if (polled_[kProcess].revents != 0) break;
      if (polled_[kOutput].revents != 0 && read_output() == Got::kEnd) polled_[kOutput].fd = -1;
      if (polled_[kErrors].revents != 0 && read_errors() == Got::kEnd) polled_[kErrors].fd = -1;
      if (polled_[kStop].revents != 0) ask_to_end();
      if (kill_at_ && system_clock().now() >= *kill_at_) kill();
    }
    end_.status = child_.finish();
    drain();
    return std::move(end_);
  }

 private:
  enum Place : std::size_t { kProcess, kOutput, kErrors, kStop, kPlaces };

  [[nodiscard]] int milliseconds_to_kill() const {
    if (!kill_at_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - system_clock().now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
  }

  void ask_to_end() {
    polled_[kStop].fd = -1;
    end_.was_stopped = true;
    child_.signal(exec_protocol::Signal::kTerminate);
    kill_at_ = saturating_add(system_clock().now(), options_.kill_after);
  }

  void kill() {
    polled_[kStop].fd = -1;
    kill_at_.reset();
    child_.signal(exec_protocol::Signal::kKill);
  }

  Got read_into_chunk(int file) {
    const ssize_t got = ::read(file, chunk_.data(), chunk_.size());
    if (got < 0) return errno == EAGAIN || errno == EINTR ? Got::kNothingYet : Got::kEnd;
    chunk_used_ = static_cast<std::size_t>(got);
    return got == 0 ? Got::kEnd : Got::kSome;
  }

  Got read_output() {
    const Got got = read_into_chunk(child_.output());
    if (got != Got::kSome) return got;
    const std::size_t taken = std::min(chunk_used_, options_.max_output - end_.output.size());
    end_.output.append(chunk_.data(), taken);
    if (taken == chunk_used_) return got;
    end_.wrote_too_much = true;
    kill();
    return Got::kEnd;
  }

  Got read_errors() {
    const Got got = read_into_chunk(child_.errors());
    if (got != Got::kSome) return got;
    end_.errors.append(chunk_.data(), chunk_used_);
    if (end_.errors.size() > kMaxErrorBytes) {
      end_.errors.erase(0, end_.errors.size() - kMaxErrorBytes);
      end_.errors_are_cut = true;
    }
    return got;
  }

  // Only what is there: another process of the machine may have been handed the other end.
  void drain() {
    while (polled_[kOutput].fd >= 0 && read_output() == Got::kSome) {
    }
    for (std::size_t read = 0; polled_[kErrors].fd >= 0 && read < kMaxPipeBytes; read += chunk_used_) {
      if (read_errors() != Got::kSome) break;
    }
  }

  ChildProcess child_;
  const WatchOptions options_;
  const int stop_event_;
  std::array<pollfd, kPlaces> polled_{};
  std::optional<Time> kill_at_;
  ChildEnd end_;
  std::array<char, kChunk> chunk_{};
  std::size_t chunk_used_ = 0;
};

}  // namespace

Result<ChildEnd> watch(ChildProcess child, const WatchOptions& options, const std::stop_token& stop) {
  const FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) {
    return Error{is_shortage(errno) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
                 "a program could not be watched: " + std::generic_category().message(errno)};
  }
  const std::stop_callback on_stop(stop, [&] {
    constexpr std::uint64_t kOne = 1;
    static_cast<void>(!::write(event.get(), &kOne, sizeof(kOne)));
  });
  return Watch(std::move(child), options, event.get()).run();
}

}  // namespace cohort
