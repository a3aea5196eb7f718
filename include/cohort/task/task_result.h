#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/task/task_status.h"

namespace cohort {

/// What became of one task: who it was, how it ended, and when.
///
/// `value` is there exactly when the status is kSuccess (and it has not been moved out by TaskHandle::take), `error`
/// exactly when it is not. A task without a result has a `std::monostate` for its value. A task that never ran has
/// `started_at == ended_at`.
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
  /// How long its body ran, until it was settled.
  [[nodiscard]] Duration duration() const { return ended_at - started_at; }
};

}  // namespace cohort
