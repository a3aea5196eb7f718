#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// What a lifecycle listener is told: a task was submitted, its body started, or it settled. The texts are valid during
/// the call.
///
/// For one task the order is submitted, started (unless it never ran), settled; the last comes before anybody who
/// awaits it goes on.
struct TaskEvent {
  enum class Kind : std::uint8_t { kSubmitted, kStarted, kSettled };

  Kind kind = Kind::kSubmitted;
  std::string_view group;
  std::string_view task_id;
  TaskStatus status = TaskStatus::kSuccess;  ///< Of kSettled.
  Time at{};
  const Error* error =
      nullptr;         ///< Of kSettled: why it did not succeed, or was rejected. Null: it did, or none was given.
  Duration queued{0};  ///< Of kStarted and kSettled: from its submit to its start, or to its end without one.
  Duration ran{0};     ///< Of kSettled: from its start to its end.
};

}  // namespace cohort
