#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cohort/base/token_bucket.h"
#include "cohort/base/unlimited.h"

namespace cohort {

/// What happens to a task that finds its group full.
enum class OverflowPolicy : std::uint8_t {
  kReject,  ///< It settles as rejected.
  /// The submitter waits at the door, ahead of the queue, until the task may start, and runs it itself. From a worker,
  /// or from inside a task of any executor, it is rejected instead.
  kCallerRuns,
  kBlock,          ///< The submitter waits for a place; from a worker or a task it is rejected, as with kCallerRuns.
  kDiscardOldest,  ///< The oldest of the lowest priority settles as rejected; the new one if it is the lowest.
};

/// Limits of one group; what is not set comes from the next source (explicit map, resolver, defaults). In code an
/// impossible value is corrected: a count below 1 becomes 1 (max_waiting may be 0), a weight that is not positive
/// becomes 1.
///
/// A group takes a task in while fewer than max_waiting + max_concurrency of its tasks are without a result, parked
/// ones not counted. So max_waiting tasks may wait beside those that run. With a max_waiting of 0 a task runs now or is
/// refused (it may still have to wait for global_max_in_flight or a worker). A paused group, or one whose rate allows
/// no start now, takes in max_waiting tasks.
struct GroupLimits {
  std::optional<Limit> max_concurrency = {};    ///< Layer 3: how many run. Default 1.
  std::optional<Limit> max_in_flight = {};      ///< Layer 2: how many run or are parked. Default unlimited.
  std::optional<Limit> max_waiting = {};        ///< How many wait, from 0; see above. Default 100,000.
  std::optional<double> weight = {};            ///< Share relative to other groups. Default 1.
  std::optional<OverflowPolicy> overflow = {};  ///< Default kReject.
  std::optional<Rate> rate = {};                ///< Starts per time. Default, or a count of kUnlimited: any.
  std::optional<Limit> max_overrunning = {};    ///< Bodies past their time-out. Default: max_concurrency.

  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

/// Where the limit of a group came from.
enum class LimitSource : std::uint8_t {
  kBuiltIn,   ///< Nobody said anything.
  kDefaults,  ///< GroupExecutorOptions::defaults,
  kResolver,  ///< ::resolver,
  kGroups,    ///< or ::groups.
  kChanged,   ///< set_limits() or resize().
};
[[nodiscard]] std::string_view to_string(LimitSource source);

/// One source for each limit.
struct LimitSources {
  LimitSource max_concurrency = LimitSource::kBuiltIn;
  LimitSource max_in_flight = LimitSource::kBuiltIn;
  LimitSource max_waiting = LimitSource::kBuiltIn;
  LimitSource max_overrunning = LimitSource::kBuiltIn;
  LimitSource weight = LimitSource::kBuiltIn;
  LimitSource overflow = LimitSource::kBuiltIn;
  LimitSource rate = LimitSource::kBuiltIn;

  friend bool operator==(const LimitSources&, const LimitSources&) = default;
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
  LimitSources sources = {};

  friend bool operator==(const ResolvedLimits&, const ResolvedLimits&) = default;
};

}  // namespace cohort
