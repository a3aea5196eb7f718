#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "cohort/base/clock.h"

namespace cohort {

/// Over what rates are taken: the calls of a time, in steps, or the last ones.
struct WindowOptions {
  enum class Kind : std::uint8_t { kTime, kCalls };
  Kind kind = Kind::kTime;
  std::uint32_t buckets = 10;                 ///< Of kTime: 1 to 60 steps,
  Duration bucket = std::chrono::seconds(1);  ///< each so long, 1 ms to 1 h.
  std::uint32_t calls = 100;                  ///< Of kCalls: 1 to 10,000.

  friend bool operator==(const WindowOptions&, const WindowOptions&) = default;
};

/// Counts of the recent past: calls, errors among them, slow ones among them.
///
/// Time is an argument. A step of time is one atomic word with its number and its counts, so that beginning it anew and
/// counting in it are one compare-and-swap. A step with more than kMostInStep calls is halved, which leaves its rates
/// as they are. Recording is O(1) and allocates nothing; counts() looks at every step.
///
/// A word has room for the low bits of its round only. That is enough because no word is ever older than one round: the
/// first who records in a new step empties the steps that were passed over, and a window in which nothing was recorded
/// for a whole round counts as empty.
///
/// Thread-safety: thread-safe, without locks. clear() beside others may lose what they are just recording.
class Window {
 public:
  static constexpr std::uint32_t kMostInStep = 32'767;

  explicit Window(const WindowOptions& options = {});

  /// `half_errors`: 2 for an error, 1 for half of one, 0 for none.
  void record(Time now, std::uint32_t half_errors, bool slow);
  void clear();

  struct Counts {
    std::uint64_t calls = 0;
    std::uint64_t half_errors = 0;
    std::uint64_t slow = 0;
    [[nodiscard]] double error_rate() const {
      return calls == 0 ? 0 : static_cast<double>(half_errors) / 2 / static_cast<double>(calls);
    }
    [[nodiscard]] double slow_rate() const {
      return calls == 0 ? 0 : static_cast<double>(slow) / static_cast<double>(calls);
    }
  };
  [[nodiscard]] Counts counts(Time now) const;
  /// Whether there is any error or slow call in it; may say so a little too long.
  [[nodiscard]] bool has_trouble(Time now) const;

 private:
  // A word: 18 bits of the round, 15 of calls, 16 of half errors, 15 of slow calls.
  [[nodiscard]] std::uint64_t step_of(Time now) const;
  void record_in_time(Time now, std::uint32_t half_errors, bool slow);
  void move_to(std::uint64_t step);
  void record_in_calls(std::uint32_t half_errors, bool slow);

  WindowOptions::Kind kind_;
  std::uint32_t size_;
  std::int64_t bucket_ns_;
  std::atomic<std::uint64_t> last_trouble_{0};  // The number of the step of the last one, plus 1.
  std::atomic<std::uint64_t> last_step_{0};     // The newest in which something was recorded.
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  // Of kCalls.
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> half_errors_{0};
  std::atomic<std::int64_t> slow_{0};
};

}  // namespace cohort
