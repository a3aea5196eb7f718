#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace cohort {

/// How a task ended. Every task ends in exactly one of these, exactly once.
enum class TaskStatus : std::uint8_t {
  kSuccess,
  kFailed,           ///< It threw, or returned an Error.
  kCancelled,        ///< Cancelled while it waited; or it returned kCancelled, or threw after it was asked to stop.
  kRejected,         ///< It was never accepted: a full queue, a bad key, an executor that has shut down.
  kTimedOutQueued,   ///< Its time ran out while it waited. It never ran.
  kTimedOutRunning,  ///< Its time ran out while it ran. Its body may still be going on.
};

inline constexpr int kTaskStatusCount = 6;

[[nodiscard]] std::string_view to_string(TaskStatus status);
std::ostream& operator<<(std::ostream& out, TaskStatus status);

}  // namespace cohort
