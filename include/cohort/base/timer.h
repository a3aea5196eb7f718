#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/base/clock.h"

namespace cohort {

/// An entry of a TimerQueue, which returns it when its time has come. Derive from it, or make it a member.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  [[nodiscard]] bool armed() const { return place_ != kNowhere; }
  /// The time at which the timer is due. Valid only while it is armed.
  [[nodiscard]] Time when() const { return when_; }

 private:
  friend class TimerQueue;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  Time when_{};
  std::size_t place_ = kNowhere;
};

/// Holds armed Timers, ordered by time. Timers of equal time keep the order in which they were armed.
///
/// The queue has no clock and no thread: its driver calls next(), waits until then, and calls pop_due(). Arming and
/// disarming cost O(log n). They allocate only if the queue grows longer than ever before. A Timer must be disarmed
/// before it is destroyed.
///
/// Thread-safety: thread-compatible.
class TimerQueue {
 public:
  /// Arms `timer` for the time `when`. If it is armed already, moves it to that time.
  void arm(Timer& timer, Time when);
  /// Disarms `timer`. Does nothing if it is not armed.
  void disarm(Timer& timer);
  /// The earliest time for which a timer is armed; nullopt if none is armed.
  [[nodiscard]] std::optional<Time> next() const {
    if (heap_.empty()) return std::nullopt;
    return heap_.front().when;
  }
  /// Disarms and returns the next Timer with `when() <= now`. Null if no timer is due.
  Timer* pop_due(Time now);
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  // Keeps the sort keys beside the pointer, because the timers may be anywhere in memory and most are never read.
  struct Armed {
    Time when{};
    std::uint64_t sequence = 0;
    Timer* timer = nullptr;
  };
  static bool before(const Armed& a, const Armed& b);
  void put(std::size_t place, const Armed& armed);
  void settle(std::size_t place);

  std::vector<Armed> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace cohort
