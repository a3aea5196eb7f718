#pragma once

#include <coroutine>

#include "cohort/base/clock.h"
#include "cohort/task/internal/executor_access.h"

namespace cohort {

/// `co_await sleep_for(10ms)` suspends a Task for that time of its executor's clock. The task gives its thread back and
/// keeps its permits. Cancelling the task does not shorten the sleep; see sleep_unless_stopped.
inline auto sleep_for(Duration duration) {
  struct Awaiter {
    Duration duration;
    [[nodiscard]] bool await_ready() const { return duration <= Duration::zero(); }
    void await_suspend(std::coroutine_handle<> coroutine) const { internal::request_sleep(duration, coroutine); }
    void await_resume() const {}
  };
  return Awaiter{duration};
}

/// Like sleep_for, but a stop request to the task (a cancel, a time-out, a shutdown) ends the sleep. Gives true if the
/// time has passed, false if the task must stop.
///
///     while (co_await sleep_unless_stopped(1s)) poll();
inline auto sleep_unless_stopped(Duration duration) {
  struct Awaiter {
    Duration duration;
    [[nodiscard]] bool await_ready() const {
      return duration <= Duration::zero() || internal::current_task_is_to_stop();
    }
    void await_suspend(std::coroutine_handle<> coroutine) const { internal::request_sleep(duration, coroutine, true); }
    [[nodiscard]] bool await_resume() const { return !internal::current_task_is_to_stop(); }
  };
  return Awaiter{duration};
}

}  // namespace cohort
