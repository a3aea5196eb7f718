#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// How a step ended.
enum class Outcome : std::uint8_t {
  kOk,              ///< The step has a value of its own.
  kFallback,        ///< The step has no value of its own. Its value is a default or comes from a fallback.
  kSkipped,         ///< The condition of the step, or of a step that it needs, was false.
  kFailed,          ///< The step returned an error or threw.
  kTimedOut,        ///< The time-out of the step was over while it waited or ran.
  kCancelled,       ///< The step was cancelled, or no other step needs its value any more.
  kRejected,        ///< A limit rejected the step.
  kUpstreamFailed,  ///< A step that this step needs has no value.
};
inline constexpr std::size_t kOutcomes = 8;

[[nodiscard]] std::string_view to_string(Outcome outcome);

/// The outcome of a step that failed with `error`.
[[nodiscard]] Outcome outcome_of(const Error& error);

}  // namespace cohort
