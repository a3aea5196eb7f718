#include "cohort/provider/window.h"

#include <algorithm>

namespace cohort {
namespace {

constexpr std::uint64_t kRoundBits = 18;
constexpr std::uint64_t kCallsShift = 0;
constexpr std::uint64_t kErrorsShift = 15;
constexpr std::uint64_t kSlowShift = 31;
constexpr std::uint64_t kRoundShift = 46;
constexpr std::uint64_t kMostCalls = Window::kMostInStep;
static_assert(kMostCalls == (1U << 15U) - 1);
constexpr std::uint64_t kRoundMask = (1U << kRoundBits) - 1;

constexpr std::uint64_t calls_of(std::uint64_t word) { return word & kMostCalls; }
constexpr std::uint64_t errors_of(std::uint64_t word) { return (word >> kErrorsShift) & 0xFFFF; }
constexpr std::uint64_t slow_of(std::uint64_t word) { return (word >> kSlowShift) & kMostCalls; }
constexpr std::uint64_t round_of(std::uint64_t word) { return word >> kRoundShift; }
constexpr std::uint64_t word_of(std::uint64_t round, std::uint64_t calls, std::uint64_t errors, std::uint64_t slow) {
  return round << kRoundShift | slow << kSlowShift | errors << kErrorsShift | calls << kCallsShift;
}

// Of kCalls: bits of one call.
constexpr std::uint64_t kUsed = 8;
constexpr std::uint64_t kSlow = 4;

}  // namespace

Window::Window(const WindowOptions& options)
    : kind_(options.kind),
      size_(options.kind == WindowOptions::Kind::kTime ? std::clamp(options.buckets, 1U, 60U)
                                                       : std::clamp(options.calls, 1U, 10'000U)),
      bucket_ns_(std::clamp<Duration>(options.bucket, std::chrono::milliseconds(1), std::chrono::hours(1)).count()),
      words_(std::make_unique<std::atomic<std::uint64_t>[]>(size_)) {}

// The first round is not the first that there could be, so that there is one before it.
std::uint64_t Window::step_of(Time now) const {
  return static_cast<std::uint64_t>(now.time_since_epoch().count() / bucket_ns_) + std::uint64_t{2} * size_;
}

void Window::record(Time now, std::uint32_t half_errors, bool slow) {
  if (half_errors != 0 || slow) {
    const std::uint64_t step = step_of(now) + 1;
    if (last_trouble_.load(std::memory_order_relaxed) != step) last_trouble_.store(step, std::memory_order_relaxed);
  }
  if (kind_ == WindowOptions::Kind::kTime) {
    record_in_time(now, half_errors, slow);
  } else {
    record_in_calls(half_errors, slow);
  }
}

// Empties the steps that were passed over since the last one. Another thread may be ahead: it stores its step in
// `last_step_` before it writes the word of that step. So a word that was read before `last_step_`, and has not changed
// since, is an old one.
void Window::move_to(std::uint64_t step) {
  std::uint64_t last = last_step_.load(std::memory_order_acquire);
  while (last < step) {
    const bool all = step - last >= size_;
    for (std::uint64_t passed = all ? step - size_ + 1 : last + 1; passed < step + (all ? 1 : 0); ++passed) {
      std::atomic<std::uint64_t>& place = words_[passed % size_];
      std::uint64_t word = place.load(std::memory_order_acquire);
      if (word != 0 && last_step_.load(std::memory_order_acquire) == last) {
        place.compare_exchange_strong(word, 0, std::memory_order_relaxed);
      }
    }
    if (last_step_.compare_exchange_weak(last, step, std::memory_order_acq_rel)) return;
  }
}

void Window::record_in_time(Time now, std::uint32_t half_errors, bool slow) {
  const std::uint64_t step = step_of(now);
  move_to(step);
  const std::uint64_t round = (step / size_) & kRoundMask;
  std::atomic<std::uint64_t>& place = words_[step % size_];
  std::uint64_t word = place.load(std::memory_order_relaxed);
  for (;;) {
    // Whoever is late counts in the newer round that he finds; anything else is long past.
    const bool is_it = calls_of(word) != 0 && ((round_of(word) - round) & kRoundMask) <= 1;
    std::uint64_t fresh = is_it ? word : word_of(round, 0, 0, 0);
    if (calls_of(fresh) == kMostCalls) {
      fresh = word_of(round_of(fresh), calls_of(fresh) / 2, errors_of(fresh) / 2, slow_of(fresh) / 2);
    }
    fresh += word_of(0, 1, half_errors, slow ? 1 : 0);
    if (place.compare_exchange_weak(word, fresh, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

void Window::record_in_calls(std::uint32_t half_errors, bool slow) {
  const std::uint64_t own = kUsed | (slow ? kSlow : 0) | half_errors;
  const std::uint64_t place = next_.fetch_add(1, std::memory_order_relaxed) % size_;
  const std::uint64_t old = words_[place].exchange(own, std::memory_order_relaxed);
  const auto part = [](std::uint64_t word, std::uint64_t mask) { return static_cast<std::int64_t>(word & mask); };
  if ((old & kUsed) == 0) calls_.fetch_add(1, std::memory_order_relaxed);
  if (part(own, 3) != part(old, 3)) half_errors_.fetch_add(part(own, 3) - part(old, 3), std::memory_order_relaxed);
  if (part(own, kSlow) != part(old, kSlow)) slow_.fetch_add(slow ? 1 : -1, std::memory_order_relaxed);
}

void Window::clear() {
  last_trouble_.store(0, std::memory_order_relaxed);
  if (kind_ == WindowOptions::Kind::kTime) {
    for (std::uint32_t i = 0; i < size_; ++i) words_[i].store(0, std::memory_order_relaxed);
    return;
  }
  const auto part = [](std::uint64_t word, std::uint64_t mask) { return static_cast<std::int64_t>(word & mask); };
  for (std::uint32_t i = 0; i < size_; ++i) {
    const std::uint64_t old = words_[i].exchange(0, std::memory_order_relaxed);
    if ((old & kUsed) != 0) calls_.fetch_sub(1, std::memory_order_relaxed);
    if (part(old, 3) != 0) half_errors_.fetch_sub(part(old, 3), std::memory_order_relaxed);
    if ((old & kSlow) != 0) slow_.fetch_sub(1, std::memory_order_relaxed);
  }
}

Window::Counts Window::counts(Time now) const {
  Counts counts;
  if (kind_ == WindowOptions::Kind::kCalls) {
    const auto positive = [](std::int64_t value) {
      return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    };
    counts.calls = positive(calls_.load(std::memory_order_relaxed));
    counts.half_errors = positive(half_errors_.load(std::memory_order_relaxed));
    counts.slow = positive(slow_.load(std::memory_order_relaxed));
    return counts;
  }
  const std::uint64_t step = step_of(now);
  if (step >= last_step_.load(std::memory_order_relaxed) + size_) return counts;
  const std::uint64_t round = step / size_;
  const std::uint64_t current = step % size_;
  for (std::uint64_t i = 0; i < size_; ++i) {
    const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
    const std::uint64_t wanted = (i <= current ? round : round - 1) & kRoundMask;
    // A newer one was begun by somebody whose clock is a little ahead.
    if (round_of(word) != wanted && round_of(word) != ((wanted + 1) & kRoundMask)) continue;
    counts.calls += calls_of(word);
    counts.half_errors += errors_of(word);
    counts.slow += slow_of(word);
  }
  return counts;
}

bool Window::has_trouble(Time now) const {
  const std::uint64_t last = last_trouble_.load(std::memory_order_relaxed);
  if (last == 0) return false;
  return kind_ == WindowOptions::Kind::kCalls || step_of(now) + 1 < last + size_;
}

}  // namespace cohort
