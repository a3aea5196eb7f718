#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// An event for a lifecycle listener: a task was submitted, its body started, or the task settled. The texts and
/// `error` are valid only during the call of the listener.
///
/// The events of one task come in the order submitted, started (unless it never ran), settled. The listener gets the
/// settled event before any code that awaits the task continues.
struct TaskEvent {
  enum class Kind : std::uint8_t { kSubmitted, kStarted, kSettled };

  Kind kind = Kind::kSubmitted;
  std::string_view group;
  std::string_view task_id;
  TaskStatus status = TaskStatus::kSuccess;  ///< Set for kSettled.
  Time at{};
  const Error* error = nullptr;  ///< Set for kSettled: why the task did not succeed. Null if it succeeded.
  Duration queued{0};  ///< Set for kStarted and kSettled: from submit to start, or to the end if it never started.
  Duration ran{0};     ///< Set for kSettled: from start to end.
};

}  // namespace cohort
