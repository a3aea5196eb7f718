#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cohort/base/token_bucket.h"
#include "cohort/base/unlimited.h"

namespace cohort {

/// What happens to a new task whose group is full.
enum class OverflowPolicy : std::uint8_t {
  kReject,  ///< The new task settles as rejected.
  /// The submitter waits at the door, ahead of the queue, until the task may start, and runs the task itself. A
  /// submitter that is a worker, or is inside a task of any executor, does not wait: its task is rejected.
  kCallerRuns,
  /// The submitter waits for a place in the queue. A submitter that is a worker, or is inside a task of any executor,
  /// does not wait: its task is rejected.
  kBlock,
  /// The oldest waiting task of the lowest priority settles as rejected. If the priority of the new task is lower
  /// still, the new task is rejected instead.
  kDiscardOldest,
};

/// The limits of one group. A field that is not set comes from the next source (explicit map, resolver, defaults). In
/// code an impossible value is corrected: a count below 1 becomes 1 (but max_waiting may be 0); a weight that is not
/// positive becomes 1.
///
/// A group accepts a task while fewer than max_waiting + max_concurrency of its accepted tasks are without a result.
/// Parked tasks do not count. So max_waiting tasks may wait while max_concurrency tasks run. With a max_waiting of 0 a
/// task runs now or is rejected; it may still have to wait for global_max_in_flight or a worker. While a group is
/// paused, or its rate allows no start, the limit is max_waiting alone.
struct GroupLimits {
  std::optional<Limit> max_concurrency = {};    ///< Layer 3: how many tasks run. Default 1.
  std::optional<Limit> max_in_flight = {};      ///< Layer 2: how many tasks run or are parked. Default unlimited.
  std::optional<Limit> max_waiting = {};        ///< How many tasks wait, 0 or more; see GroupLimits. Default 100,000.
  std::optional<double> weight = {};            ///< Share relative to other groups. Default 1.
  std::optional<OverflowPolicy> overflow = {};  ///< What happens to a new task if the group is full. Default kReject.
  std::optional<Rate> rate = {};                ///< Limits the starts. Default, or a count of kUnlimited: no limit.
  std::optional<Limit> max_overrunning = {};    ///< How many bodies run past their time-out. Default max_concurrency.

  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

/// Which source set a limit of a group.
enum class LimitSource : std::uint8_t {
  kBuiltIn,   ///< No source set the limit: the built-in value.
  kDefaults,  ///< GroupExecutorOptions::defaults.
  kResolver,  ///< GroupExecutorOptions::resolver.
  kGroups,    ///< GroupExecutorOptions::groups.
  kChanged,   ///< A call of set_limits() or resize().
};
[[nodiscard]] std::string_view to_string(LimitSource source);

/// The source of each limit of a group.
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

/// The limits that hold for a group: all sources have been asked and impossible values corrected.
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
