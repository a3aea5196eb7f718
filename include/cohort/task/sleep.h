#pragma once

#include <coroutine>

#include "cohort/base/clock.h"
#include "cohort/task/internal/executor_access.h"

namespace cohort {

/// `co_await sleep_for(10ms)` inside a Task: gives the thread back, keeps the permits, and goes on after that time of
/// the executor's clock. Cancelling the task does not cut it short.
inline auto sleep_for(Duration duration) {
  struct Awaiter {
    Duration duration;
    [[nodiscard]] bool await_ready() const { return duration <= Duration::zero(); }
    void await_suspend(std::coroutine_handle<> coroutine) const { internal::request_sleep(duration, coroutine); }
    void await_resume() const {}
  };
  return Awaiter{duration};
}

}  // namespace cohort
