#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// How a step ended.
enum class Outcome : std::uint8_t {
  kOk,
  kFallback,        ///< It has a value, but not its own: a default, or what a fallback gave.
  kSkipped,         ///< Its condition said no, or that of something it needs.
  kFailed,          ///< It said so, or threw.
  kTimedOut,        ///< Its time was over, waiting or running.
  kCancelled,       ///< Somebody asked for it to stop, or nobody needs it any more.
  kRejected,        ///< A limit refused it.
  kUpstreamFailed,  ///< Something it needs has no value.
};
inline constexpr std::size_t kOutcomes = 8;

[[nodiscard]] std::string_view to_string(Outcome outcome);

/// The outcome of a step that failed with that error.
[[nodiscard]] Outcome outcome_of(const Error& error);

}  // namespace cohort
