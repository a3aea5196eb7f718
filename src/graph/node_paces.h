#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/histogram.h"
#include "cohort/base/mutex.h"
#include "cohort/graph/internal/graph_plan.h"

namespace cohort::internal {

/// How long nodes of each type wait, and how long what follows a node takes.
///
/// Only what is needed is measured: durations of nodes that follow one with a default and no time-out of its own.
///
/// Thread-safety: thread-safe.
class NodePaces {
 public:
  explicit NodePaces(const GraphPlan& plan);

  /// How long they wait for their start, of late.
  [[nodiscard]] Duration queued(std::uint32_t node) const {
    return Duration(static_cast<std::int64_t>(nodes_[node].queued_ns.load(std::memory_order_relaxed)));
  }
  /// How long it takes from the end of that node until all that need it have ended, in the 95th percentile, along the
  /// longest way. Nothing: that is not known yet.
  [[nodiscard]] std::optional<Duration> rest_after(std::uint32_t node) const {
    const Duration::rep rest = nodes_[node].rest_ns.load(std::memory_order_relaxed);
    return rest < 0 ? std::nullopt : std::optional(Duration(rest));
  }

  /// An attempt has waited so long before it began, or was given up,
  void learn_wait(std::uint32_t node, Duration queued) {
    const float before = nodes_[node].queued_ns.load(std::memory_order_relaxed);
    const auto waited = static_cast<float>(std::max(queued, Duration::zero()).count());
    const float after = before + (waited - before) / 4;
    if (after != before) nodes_[node].queued_ns.store(after, std::memory_order_relaxed);
  }
  /// and a node has ended so long after its last input, waits and attempts included; or would have, as far as is known.
  void learn_end(std::uint32_t node, Duration took) {
    if (nodes_[node].is_measured) record(node, took);
  }

 private:
  struct Node {
    std::atomic<float> queued_ns{0};
    std::atomic<Duration::rep> rest_ns{-1};
    Duration::rep p95_ns = -1;  // Guarded by mutex_; below 0: too few have succeeded.
    bool is_measured = false;
  };
  void record(std::uint32_t node, Duration took) COHORT_EXCLUDES(mutex_);
  void follow() COHORT_REQUIRES(mutex_);

  const GraphPlan& plan_;
  std::vector<Node> nodes_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Histogram>> took_ COHORT_GUARDED_BY(mutex_);  // Of those that are measured.
};

}  // namespace cohort::internal
