#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/graph/graph_options.h"
#include "cohort/graph/internal/graph_plan.h"

namespace cohort::internal {

/// Divides a number of places among groups by what they need, and follows what they turn out to need.
///
/// It is driven: given the time and what was measured, it says what to change.
///
/// Thread-safety: thread-compatible.
class GroupSizer {
 public:
  /// `total` places. Who has asked for a number gets it; the rest is divided by demand, at least one each. Groups that
  /// say nothing count as the mean of those that do.
  GroupSizer(const std::vector<GraphPlan::Group>& groups, std::uint32_t total);

  [[nodiscard]] const std::vector<std::uint32_t>& sizes() const { return sizes_; }

  /// What a group has done since the last look.
  struct Measured {
    std::uint64_t ended = 0;
    Duration busy{0};  ///< How long its nodes ran, all together.
  };
  /// Moves the sizes a step towards what was measured over `period`: at most by a quarter, and only where they are off
  /// by more than a fifth. Groups with a number of their own keep it.
  std::vector<SizeChange> follow(const std::vector<Measured>& measured, Duration period, Time now);

 private:
  [[nodiscard]] std::vector<std::uint32_t> divided(const std::vector<double>& demand) const;

  std::vector<GraphPlan::Group> groups_;
  std::uint32_t total_;
  std::vector<double> demand_;
  std::vector<std::uint32_t> sizes_;
};

}  // namespace cohort::internal
