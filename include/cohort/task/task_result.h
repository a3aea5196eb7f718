#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// The outcome of one task: its group and id, how it ended, and when.
///
/// `value` is set exactly when the status is kSuccess and TaskHandle::take has not moved the value out. `error` is set
/// exactly when the status is not kSuccess. A task that returns nothing has a `std::monostate` as its value. A task
/// that never ran has `started_at == ended_at`.
///
/// Thread-safety: thread-compatible.
template <class T>
struct TaskResult {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  std::string group;
  std::string task_id;
  TaskStatus status = TaskStatus::kFailed;
  std::optional<Value> value;
  std::optional<Error> error;
  Time submitted_at{};
  Time started_at{};
  Time ended_at{};

  [[nodiscard]] bool ok() const { return status == TaskStatus::kSuccess; }
  /// How long the body ran until the task settled.
  [[nodiscard]] Duration duration() const { return ended_at - started_at; }
};

}  // namespace cohort
