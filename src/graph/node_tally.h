#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/base/histogram.h"
#include "cohort/base/mutex.h"
#include "cohort/graph/graph_stats.h"
#include "cohort/graph/internal/run_state.h"

namespace cohort::internal {

/// What has been counted of all runs, in a few parts so that threads seldom meet.
///
/// Thread-safety: thread-safe.
class GraphTally {
 public:
  explicit GraphTally(const GraphPlan& plan);

  void count(const RunState& run);
  /// Without what is known of the groups only.
  [[nodiscard]] GraphStats stats() const;

 private:
  struct NodePart {
    std::array<std::uint64_t, kOutcomes> outcomes{};
    std::uint64_t critical = 0;
    Histogram queued;
    Histogram ran;
  };
  struct alignas(64) Part {
    mutable Mutex mutex;
    std::uint64_t runs COHORT_GUARDED_BY(mutex) = 0;
    std::uint64_t complete COHORT_GUARDED_BY(mutex) = 0;
    Histogram duration COHORT_GUARDED_BY(mutex);
    std::vector<NodePart> nodes COHORT_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kParts = 8;

  const GraphPlan& plan_;
  std::array<Part, kParts> parts_;
};

}  // namespace cohort::internal
