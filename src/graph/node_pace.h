#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "cohort/base/clock.h"
#include "cohort/task/task_status.h"

namespace cohort::internal {

/// How long nodes of a type take, and wait. Read always, written now and then: of quick ones every sixteenth, so that
/// they do not all write to the same place.
///
/// Thread-safety: thread-safe; of writers at the same time one may win.
class NodePace {
 public:
  /// Many have been seen, and they are so short that handing them to another thread would cost more.
  [[nodiscard]] bool is_quick() const {
    return is_short(mean_ns_.load(std::memory_order_relaxed)) && seen_.load(std::memory_order_relaxed) >= kSeenEnough;
  }
  /// How long they wait, of late.
  [[nodiscard]] Duration queued() const {
    return Duration(static_cast<std::int64_t>(queued_ns_.load(std::memory_order_relaxed)));
  }

  /// How an attempt went; `ran` is nothing if its body never began. True: is_quick() may have changed.
  bool learn(Duration queued, std::optional<Duration> ran, TaskStatus status) {
    if (ran.value_or(Duration(0)) < 10 * kQuick && is_quick()) {
      thread_local std::uint32_t turn = 0;
      if (++turn % 16 != 0) return false;
    }
    const float before = queued_ns_.load(std::memory_order_relaxed);
    const auto waited = static_cast<float>(std::max(queued, Duration::zero()).count());
    queued_ns_.store(before + (waited - before) / 4, std::memory_order_relaxed);
    const float mean = mean_ns_.load(std::memory_order_relaxed);
    if (!ran) return false;
    const auto took = static_cast<float>(ran->count());
    if (status != TaskStatus::kSuccess && took < mean) return false;  // Failing can be quick.
    mean_ns_.store(mean < 0 ? took : mean + (took - mean) / 8, std::memory_order_relaxed);
    if (status == TaskStatus::kSuccess && seen_.load(std::memory_order_relaxed) < kSeenEnough) {
      seen_.fetch_add(1, std::memory_order_relaxed);
    }
    return true;
  }

 private:
  static constexpr Duration kQuick = std::chrono::microseconds(5);
  static constexpr std::uint32_t kSeenEnough = 32;

  static bool is_short(float mean_ns) { return mean_ns >= 0 && mean_ns < static_cast<float>(kQuick.count()); }

  std::atomic<float> mean_ns_{-1};  // Below 0: not known yet.
  std::atomic<float> queued_ns_{0};
  std::atomic<std::uint32_t> seen_{0};
};

}  // namespace cohort::internal
