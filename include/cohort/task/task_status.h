#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace cohort {

/// How a task ended. Every task ends exactly once, with exactly one of these values.
enum class TaskStatus : std::uint8_t {
  kSuccess,
  kFailed,           ///< The body threw an exception, or returned an Error.
  kCancelled,        ///< Cancelled while it waited; or its body returned kCancelled, or threw after a stop request.
  kRejected,         ///< Not accepted (full queue, bad key, shutdown), or discarded for a newer task. It never ran.
  kTimedOutQueued,   ///< Its time ran out while it waited. It never ran.
  kTimedOutRunning,  ///< Its time ran out while it ran or was parked. Its body may still be running.
};

inline constexpr int kTaskStatusCount = 6;

[[nodiscard]] std::string_view to_string(TaskStatus status);
std::ostream& operator<<(std::ostream& out, TaskStatus status);

}  // namespace cohort
