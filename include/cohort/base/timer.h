#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/base/clock.h"

namespace cohort {

/// Something that wants to be told when a time has come: derive from it, or make it a member.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  [[nodiscard]] bool armed() const { return place_ != kNowhere; }
  /// When it is due. Only while armed.
  [[nodiscard]] Time when() const { return when_; }

 private:
  friend class TimerQueue;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  Time when_{};
  std::size_t place_ = kNowhere;
};

/// The armed Timers by their time; those of one time in the order in which they were armed.
///
/// It has no clock and no thread: its driver asks for next(), waits, and takes what is due. Arming and disarming cost
/// O(log n) and allocate only when the queue has never been so long. A Timer must be disarmed before it is destroyed.
///
/// Thread-safety: thread-compatible.
class TimerQueue {
 public:
  /// Arms `timer`, or moves it to another time when it is armed already.
  void arm(Timer& timer, Time when);
  /// Does nothing when it is not armed.
  void disarm(Timer& timer);
  /// The earliest time for which one is armed.
  [[nodiscard]] std::optional<Time> next() const {
    if (heap_.empty()) return std::nullopt;
    return heap_.front().when;
  }
  /// The next Timer with `when() <= now`, disarmed; null when there is none.
  Timer* pop_due(Time now);
  [[nodiscard]] std::size_t size() const { return heap_.size(); }

 private:
  // With what it is ordered by: timers may be anywhere in memory, and most are never looked at.
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
