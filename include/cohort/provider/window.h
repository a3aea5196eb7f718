#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "cohort/base/clock.h"

namespace cohort {

/// The calls over which rates are computed: the calls of a recent time, or the last calls.
struct WindowOptions {
  enum class Kind : std::uint8_t {
    kTime,  ///< The calls of the last `buckets` steps of `bucket` each.
    kCalls  ///< The last `calls` calls.
  };
  Kind kind = Kind::kTime;
  std::uint32_t buckets = 10;                 ///< For kTime: number of steps. 1 to 60.
  Duration bucket = std::chrono::seconds(1);  ///< For kTime: length of a step. 1 ms to 1 h.
  std::uint32_t calls = 100;                  ///< For kCalls: number of calls. 1 to 10,000.

  friend bool operator==(const WindowOptions&, const WindowOptions&) = default;
};

/// Counts the recent calls, and how many of them failed or were slow.
///
/// Time is an argument. One atomic word holds a step of time: its round and its counts. So restarting a step and
/// counting in it are one compare-and-swap. When a step would exceed kMostInStep calls, its counts are halved, which
/// keeps its rates. Recording is O(1) and allocates nothing; counts() reads every step.
///
/// A word holds only the low bits of its round. That is enough, because no word is older than one round. The first
/// thread that records in a new step empties the steps that were passed over. A window in which nothing was recorded
/// for a whole round counts as empty.
///
/// Thread-safety: thread-safe, without locks. clear() may lose calls that other threads record meanwhile.
class Window {
 public:
  static constexpr std::uint32_t kMostInStep = 32'767;

  explicit Window(const WindowOptions& options = {});

  /// Records one call. `half_errors` is 2 for an error, 1 for half an error and 0 for no error.
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
  /// True if the window holds an error or a slow call. The answer may stay true a little too long.
  [[nodiscard]] bool has_trouble(Time now) const;

 private:
  // A word has 18 bits for the round, 15 for calls, 16 for half errors and 15 for slow calls.
  [[nodiscard]] std::uint64_t step_of(Time now) const;
  void record_in_time(Time now, std::uint32_t half_errors, bool slow);
  void move_to(std::uint64_t step);
  void record_in_calls(std::uint32_t half_errors, bool slow);

  WindowOptions::Kind kind_;
  std::uint32_t size_;
  std::int64_t bucket_ns_;
  std::atomic<std::uint64_t> last_trouble_{0};  // The number of the last step with an error or a slow call, plus 1.
  std::atomic<std::uint64_t> last_step_{0};     // The newest step in which a call was recorded.
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
  // For kCalls only.
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> half_errors_{0};
  std::atomic<std::int64_t> slow_{0};
};

}  // namespace cohort
