#include "chain/retention.h"

namespace cohort {

void Retention::tick() {
  {
    MutexLock lock(mutex_);
    const Time now = executor_.clock().now();
    const bool is_due = retention_ > Duration::zero() && now - began_ >= std::chrono::minutes(1);
    if (is_stopped_ || is_under_way_ || !is_due) return;
    is_under_way_ = true;
    began_ = now;
  }
  step();
}

void Retention::stop() {
  MutexLock lock(mutex_);
  is_stopped_ = true;
}

void Retention::end() {
  MutexLock lock(mutex_);
  is_under_way_ = false;
}

void Retention::step() {
  constexpr std::uint32_t kAtOnce = 50;
  static constexpr Duration kPause = std::chrono::milliseconds(20);
  store_.remove_ended(retention_, kAtOnce, [this, hold = calls_.hold()](Result<std::uint64_t> removed) {
    if (!removed || *removed != kAtOnce || is_stopped()) return end();
    // No hold while it pauses: the engine may end meanwhile.
    const Time next = executor_.clock().now() + kPause;
    executor_.call_at(next, [this, next, engine = calls_.owner()] {
      const auto alive = engine.lock();
      if (!alive) return;
      // (An executor that ends calls before the time.)
      if (executor_.clock().now() < next || is_stopped()) return end();
      step();
    });
  });
}

}  // namespace cohort
