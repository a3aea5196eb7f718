#pragma once

#include <cstdint>
#include <optional>

#include "cohort/base/token_bucket.h"
#include "cohort/base/unlimited.h"

namespace cohort {

/// What happens to a task that finds its group's queue full.
enum class OverflowPolicy : std::uint8_t {
  kReject,         ///< It settles as rejected.
  kBlock,          ///< The submitter waits for a place; from inside a task it is rejected instead.
  kDiscardOldest,  ///< The oldest of the lowest priority settles as rejected; the new one if it is the lowest.
};

/// Limits of one group; what is not set comes from the next source (explicit map, resolver, defaults). In code an
/// impossible value is corrected: a count below 1 becomes 1, a weight that is not positive becomes 1.
struct GroupLimits {
  std::optional<std::uint32_t> max_concurrency = {};  ///< Layer 3: how many run. Default 1.
  std::optional<std::uint32_t> max_in_flight = {};    ///< Layer 2: how many run or are parked. Default unlimited.
  std::optional<std::uint32_t> max_waiting = {};      ///< Length of the queue. Default 100,000.
  std::optional<double> weight = {};                  ///< Share relative to other groups. Default 1.
  std::optional<OverflowPolicy> overflow = {};        ///< Default kReject.
  std::optional<Rate> rate = {};                      ///< Starts per time. Default, or a count of kUnlimited: any.
  std::optional<std::uint32_t> max_overrunning = {};  ///< Bodies past their time-out. Default: max_concurrency.

  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

/// Limits after all sources have been asked and corrected: what holds.
struct ResolvedLimits {
  std::uint32_t max_concurrency = 1;
  std::uint32_t max_in_flight = kUnlimited;
  std::uint32_t max_waiting = 100'000;
  std::uint32_t max_overrunning = 1;
  double weight = 1.0;
  OverflowPolicy overflow = OverflowPolicy::kReject;
  std::optional<Rate> rate = {};

  friend bool operator==(const ResolvedLimits&, const ResolvedLimits&) = default;
};

}  // namespace cohort
