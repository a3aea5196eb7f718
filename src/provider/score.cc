#include "cohort/provider/score.h"

#include <algorithm>

#include "cohort/base/log.h"

namespace cohort {
namespace {

double in_ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

ScoreOptions corrected(ScoreOptions options) {
  options.alpha = std::clamp(options.alpha, 0.001, 1.0);
  options.window = std::clamp(options.window, 1U, 64U);
  options.latency_max = std::max<Duration>(options.latency_max, options.latency_safe + std::chrono::milliseconds(1));
  return options;
}

}  // namespace

Score::Score(const ScoreOptions& options) : options_(corrected(options)) {
  if (options_.alpha != options.alpha || options_.window != options.window ||
      options_.latency_max != options.latency_max) {
    COHORT_LOG(kWarning, "provider", "options of a score were out of range, and the nearest allowed value is used");
  }
}

void Score::record(bool success, Duration latency) {
  MutexLock lock(mutex_);
  const bool first = calls_.load(std::memory_order_relaxed) == 0;
  const double alpha = first ? 1.0 : options_.alpha;
  success_rate_ += ((success ? 1.0 : 0.0) - success_rate_) * alpha;
  latency_ms_ += (std::max(in_ms(latency), 0.0) - latency_ms_) * alpha;
  failed_[next_] = !success;
  next_ = (next_ + 1) % options_.window;
  known_ = std::min(known_ + 1, options_.window);
  calls_.fetch_add(1, std::memory_order_relaxed);
  update();
}

void Score::update() {
  const double safe = in_ms(options_.latency_safe);
  const double penalty = std::clamp((latency_ms_ - safe) / (in_ms(options_.latency_max) - safe), 0.0, 1.0);
  const double recent = known_ == 0 ? 0.0 : static_cast<double>(failed_.count()) / known_;
  value_.store(std::clamp(success_rate_ * 70 - penalty * 20 - recent * 10, 1.0, 100.0), std::memory_order_relaxed);
}

Score::Saved Score::save() const {
  MutexLock lock(mutex_);
  return {success_rate_, latency_ms_, calls_.load(std::memory_order_relaxed)};
}

void Score::restore(const Saved& saved) {
  MutexLock lock(mutex_);
  success_rate_ = saved.success_rate > 0 ? std::min(saved.success_rate, 1.0) : 0.0;  // What is no number is 0.
  latency_ms_ = saved.latency_ms > 0 ? std::min(saved.latency_ms, 1e9) : 0.0;
  calls_.store(saved.calls, std::memory_order_relaxed);
  failed_.reset();
  next_ = known_ = 0;
  update();
}

}  // namespace cohort
