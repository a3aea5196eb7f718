#include "cohort/provider/bulkhead.h"

#include <algorithm>

#include "cohort/base/log.h"

namespace cohort {
namespace {

std::uint32_t at_least_one(std::uint32_t max_concurrent) {
  if (max_concurrent == 0) COHORT_LOG(kWarning, "provider", "a bulkhead has at least 1 place, and 1 is used");
  return std::max(1U, max_concurrent);
}

}  // namespace

Bulkhead::Bulkhead(std::uint32_t max_concurrent) : most_(at_least_one(max_concurrent)) {}

bool Bulkhead::try_enter() {
  std::uint32_t inside = inside_.load(std::memory_order_seq_cst);
  while (inside < most_.load(std::memory_order_relaxed)) {
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

Bulkhead::Place Bulkhead::enter(Duration max_wait) {
  if (try_enter()) return Place(this);
  if (max_wait > Duration::zero()) {
    const Time until = saturating_add(std::chrono::steady_clock::now(), max_wait);
    MutexLock lock(mutex_);
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    bool entered = try_enter();
    while (!entered && std::chrono::steady_clock::now() < until) {
      freed_.wait_until(mutex_, until);
      entered = try_enter();
    }
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
    if (entered) return Place(this);
  }
  rejected_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

void Bulkhead::leave() {
  inside_.fetch_sub(1, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(mutex_);
  freed_.notify_one();
}

void Bulkhead::resize(std::uint32_t max_concurrent) {
  most_.store(at_least_one(max_concurrent), std::memory_order_seq_cst);
  MutexLock lock(mutex_);
  freed_.notify_all();
}

}  // namespace cohort
