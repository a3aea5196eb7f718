#include "cohort/provider/retry_budget.h"

#include <algorithm>

namespace cohort {
namespace {

std::uint64_t second_of(Time now) {
  return static_cast<std::uint64_t>(now.time_since_epoch() / std::chrono::seconds(1)) & 0xFFFF'FFFFU;
}

}  // namespace

void RetryBudget::Seconds::count(Time now) {
  const std::uint64_t second = second_of(now);
  std::atomic<std::uint64_t>& place = words_[second % words_.size()];
  std::uint64_t word = place.load(std::memory_order_relaxed);
  for (;;) {
    if (word >> 32U == second) {
      place.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (place.compare_exchange_weak(word, second << 32U | 1U, std::memory_order_relaxed)) return;
  }
}

std::uint64_t RetryBudget::Seconds::sum(Time now) const {
  const std::uint64_t second = second_of(now);
  std::uint64_t sum = 0;
  for (const std::atomic<std::uint64_t>& place : words_) {
    const std::uint64_t word = place.load(std::memory_order_relaxed);
    const std::uint64_t age = (second - (word >> 32U)) & 0xFFFF'FFFFU;
    if (age < words_.size() || age == 0xFFFF'FFFFU) sum += word & 0xFFFF'FFFFU;  // (A clock may be a little ahead.)
  }
  return sum;
}

double RetryBudget::left() const {
  constexpr double kSeconds = 10;
  const Time now = clock_.now();
  const double allowed =
      std::max(options_.ratio * static_cast<double>(requests_.sum(now)), options_.floor_per_second * kSeconds);
  return allowed - static_cast<double>(retries_.sum(now));
}

bool RetryBudget::try_retry() {
  if (left() < 1) return false;
  retries_.count(clock_.now());
  return true;
}

}  // namespace cohort
