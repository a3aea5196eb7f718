#include "cohort/base/clock.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>

#include "cohort/base/internal/int128.h"
#include "cohort/base/mutex.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace cohort {
namespace {

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return std::chrono::steady_clock::now(); }
};

#if defined(__x86_64__)
std::uint64_t ticks() { return __rdtsc(); }
#else
std::uint64_t ticks() { return 0; }
#endif

// Converts ticks by `line.time + (ticks - line.ticks) * line.scale`. The kernel slews its clock, so the line is drawn
// anew against steady_clock every `span_` ticks: 10 ms at first, while the rate is rough, up to about a second.
//
// 1. Readers take the line under a sequence counter (odd while it is being written) and never block; one that finds it
//    replaced after it has read the counter begins again.
// 2. Past one span a single reader redraws it, by try_lock; the others go on with the old line.
// 3. Past two spans (an idle process) the old line is no longer believed: every reader waits for the redraw. So no line
//    ever tells a time later than its own value after two spans.
// 4. A new line starts at the later of steady_clock and what the old one told, and where it starts ahead of
//    steady_clock its slope is flatter, so that they meet after one span. With 3, now() never goes back.
// 5. But for what is not worth a fence in every reading: a processor may read the counter a little before it gets what
//    another thread has written; and one that is stopped between drawing a line and publishing it leaves the others on
//    a line that is steeper by a few millionths.
class TscClock final : public Clock {
 public:
  TscClock() {
    const Anchor start = read_both();
    Anchor end = start;
    while (end.time - start.time < std::chrono::milliseconds(2)) end = read_both();
    set_line({end.ticks, end.time.time_since_epoch().count(), rate(end.time - start.time, end.ticks - start.ticks)});
    anchor_ = end;
    span_ = (end.ticks - start.ticks) * 5;
  }

  [[nodiscard]] Time now() const override {
    Line line = read_line();
    std::uint64_t at = ticks();
    // Not by a line that was replaced meanwhile: this thread may have lost its processor after it read the line.
    while (ticks_.load(std::memory_order_acquire) != line.ticks) {
      line = read_line();
      at = ticks();
    }
    const std::uint64_t since = at > line.ticks ? at - line.ticks : 0;
    const std::uint64_t span = span_.load(std::memory_order_relaxed);
    if (since > 2 * span) return redraw_and_tell();
    if (since > span && refresh_.try_lock()) {
      redraw();
      refresh_.unlock();
    }
    return at_line(line, since);
  }

 private:
  struct Line {
    std::uint64_t ticks;
    std::int64_t nanoseconds;
    std::uint64_t scale;  // nanoseconds per tick, times 2^32
  };
  struct Anchor {
    std::uint64_t ticks;
    Time time;
  };

  // Both clocks at one moment. A thread that loses its processor between the readings sees them far apart, so the
  // closest of a few tries counts.
  static Anchor read_both() {
    Anchor best{};
    std::uint64_t closest = ~std::uint64_t{0};
    for (int i = 0; i < 8 && closest > 1000; ++i) {
      const std::uint64_t before = ticks();
      const Time time = std::chrono::steady_clock::now();
      const std::uint64_t apart = ticks() - before;
      if (apart >= closest) continue;
      closest = apart;
      best = {before + apart / 2, time};
    }
    return best;
  }

  static std::uint64_t rate(Duration time, std::uint64_t ticks) {
    return static_cast<std::uint64_t>((static_cast<internal::Uint128>(time.count()) << 32) / ticks);
  }

  static Time at_line(const Line& line, std::uint64_t since) {
    const auto elapsed = static_cast<std::int64_t>((static_cast<internal::Uint128>(since) * line.scale) >> 32);
    return Time(Duration(line.nanoseconds + elapsed));
  }

  Line read_line() const {
    for (;;) {
      const std::uint32_t before = sequence_.load(std::memory_order_acquire);
      const Line line{ticks_.load(std::memory_order_acquire), nanoseconds_.load(std::memory_order_acquire),
                      scale_.load(std::memory_order_acquire)};
      if ((before & 1U) == 0 && sequence_.load(std::memory_order_relaxed) == before) return line;
    }
  }

  void set_line(const Line& line) const {
    const std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    // Release on each field keeps the odd number in front of them; the last store keeps them in front of the even one.
    ticks_.store(line.ticks, std::memory_order_release);
    nanoseconds_.store(line.nanoseconds, std::memory_order_release);
    scale_.store(line.scale, std::memory_order_release);
    sequence_.store(sequence + 2, std::memory_order_release);
  }

  [[nodiscard]] Time redraw_and_tell() const {
    MutexLock lock(refresh_);
    redraw();
    const Line line = read_line();
    const std::uint64_t at = ticks();
    const std::uint64_t since = at > line.ticks ? at - line.ticks : 0;
    return at_line(line, std::min(since, 2 * span_.load(std::memory_order_relaxed)));
  }

  void redraw() const COHORT_REQUIRES(refresh_) {
    const Line old = read_line();
    const auto [at, truth] = read_both();
    const std::uint64_t span = span_.load(std::memory_order_relaxed);
    const std::uint64_t since = at > old.ticks ? at - old.ticks : 0;
    if (since <= span) return;  // Somebody else was faster.

    const Time start = std::max(truth, at_line(old, std::min(since, 2 * span)));
    const std::uint64_t exact = rate(truth - anchor_.time, at - anchor_.ticks);
    const std::uint64_t flatter = std::min(rate(start - truth, span), exact / 2);
    Line line{at, start.time_since_epoch().count(), exact - flatter};
    // Others have gone on telling by the old line since `at`.
    const std::uint64_t now = ticks();
    const Duration behind = at_line(old, std::min(now - old.ticks, 2 * span)) - at_line(line, now - at);
    if (behind > Duration::zero()) line.nanoseconds += behind.count();
    set_line(line);
    anchor_ = {at, truth};
    if (span < kLongestSpan) span_.store(span * 2, std::memory_order_relaxed);
  }

  static constexpr std::uint64_t kLongestSpan = 1ULL << 31;

  mutable std::atomic<std::uint32_t> sequence_{0};
  mutable std::atomic<std::uint64_t> ticks_{0};
  mutable std::atomic<std::int64_t> nanoseconds_{0};
  mutable std::atomic<std::uint64_t> scale_{0};
  mutable std::atomic<std::uint64_t> span_{0};
  mutable Mutex refresh_;
  mutable Anchor anchor_ COHORT_GUARDED_BY(refresh_){};
};

}  // namespace

namespace internal {

bool tsc_is_trusted() {
#if defined(__x86_64__)
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  return file >> source && source == "tsc";
#else
  return false;
#endif
}

}  // namespace internal

Clock& system_clock() {
  static Clock& clock = []() -> Clock& {
    if (!internal::tsc_is_trusted()) return *new SteadyClock;  // Never freed: threads may outlive statics.
    return *new TscClock;
  }();
  return clock;
}

}  // namespace cohort
