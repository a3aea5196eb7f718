#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/step/outcome.h"

namespace cohort {

/// How one node of one run ended.
struct NodeReport {
  std::string name;
  std::string group;
  Outcome outcome = Outcome::kOk;
  bool is_fallback = false;    ///< True if the value comes from GraphNode::otherwise(), also for a skipped node.
  Error error{};               ///< Why the outcome is not kOk. For a fallback: why the node needed it.
  std::uint32_t attempts = 0;  ///< 0: the node never started.
  Duration ready{0};           ///< From the start of the run until the inputs of the node had ended.
  Duration queued{0};          ///< From `ready` until the first attempt began.
  Duration ran{0};             ///< From the start of the first attempt to the end of the node, retries included.
  bool on_critical_path = false;
};

/// Statistics of one node over all runs.
struct NodeStats {
  std::string name;
  std::string group;
  std::array<std::uint64_t, kOutcomes> outcomes{};
  Duration queued_p50{0};
  Duration queued_p99{0};
  Duration p50{0};                     ///< Median of the time from the first attempt to the end of the node.
  Duration p95{0};                     ///< 95th percentile of the time from the first attempt to the end of the node.
  Duration p99{0};                     ///< 99th percentile of the time from the first attempt to the end of the node.
  std::uint64_t on_critical_path = 0;  ///< In how many runs the node was on the critical path.
  // Current values of the node's group.
  std::uint32_t concurrency = 0;
  std::uint32_t running = 0;
  std::uint64_t waiting = 0;

  [[nodiscard]] std::uint64_t count(Outcome outcome) const { return outcomes[static_cast<std::size_t>(outcome)]; }
  /// The part of the group's concurrency that is in use, 0 to 1.
  [[nodiscard]] double saturation() const {
    return concurrency == 0 ? 0 : static_cast<double>(running) / static_cast<double>(concurrency);
  }
};

/// Statistics of a graph over all runs.
struct GraphStats {
  std::uint64_t runs = 0;
  std::uint64_t complete = 0;  ///< Runs in which every output node had a value.
  Duration p50{0};             ///< Median duration of a run.
  Duration p99{0};             ///< 99th percentile of the duration of a run.
  std::vector<NodeStats> nodes;
};

}  // namespace cohort
