#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

#include "cohort/base/assert.h"
#include "cohort/task/task_handle.h"

namespace cohort {

namespace internal {

/// A wait for several tasks: `.await()` blocks (and parks inside a task), `co_await` suspends. `Collect` makes the
/// answer from the handles when enough of the tasks are done.
template <class T, class Collect>
class When {
 public:
  When(std::vector<TaskHandle<T>> handles, std::size_t need, Collect collect)
      : handles_(std::move(handles)), need_(need), collect_(collect) {}

  [[nodiscard]] auto await() const {
    auto state = make_state();
    if (!state->satisfied()) ExecutorAccess::await(*state, std::nullopt);
    return collect_(handles_);
  }

  auto operator co_await() const {
    struct Awaiter {
      const When& when;
      [[nodiscard]] bool await_ready() const { return when.make_state()->satisfied(); }
      void await_suspend(std::coroutine_handle<> coroutine) const { request_await(when.make_state(), coroutine); }
      auto await_resume() const {
        take_await_error();  // Dropped: collect_ looks again at each task that is not done.
        return when.collect_(when.handles_);
      }
    };
    return Awaiter{*this};
  }

 private:
  [[nodiscard]] Ref<AwaitState> make_state() const {
    std::vector<TaskRef> records;
    records.reserve(handles_.size());
    for (const TaskHandle<T>& handle : handles_) records.emplace_back(handle.record());
    return AwaitState::make(std::move(records), need_);
  }

  std::vector<TaskHandle<T>> handles_;
  std::size_t need_;
  Collect collect_;
};

template <class T, class... Others>
std::vector<TaskHandle<T>> handle_vector(TaskHandle<T> first, Others... others) {
  std::vector<TaskHandle<T>> handles;
  handles.reserve(1 + sizeof...(others));
  handles.push_back(std::move(first));
  (handles.push_back(std::move(others)), ...);
  return handles;
}

}  // namespace internal

/// Waits until all tasks of `handles` are done and gives their results in the order of `handles`. A value that cannot
/// be copied is moved out.
///
///     std::vector<TaskResult<int>> results = co_await when_all(std::move(handles));   // or .await()
template <class T>
auto when_all(std::vector<TaskHandle<T>> handles) {
  auto collect = [](const std::vector<TaskHandle<T>>& all) {
    std::vector<TaskResult<T>> results;
    results.reserve(all.size());
    for (const TaskHandle<T>& handle : all) results.push_back(handle.await_or_take());
    return results;
  };
  const std::size_t need = handles.size();
  return internal::When<T, decltype(collect)>(std::move(handles), need, collect);
}

/// Waits until all of the given tasks are done and gives their results in that order: co_await when_all(a, b, c).
template <class T, std::same_as<TaskHandle<T>>... Others>
auto when_all(TaskHandle<T> first, Others... others) {
  return when_all(internal::handle_vector(std::move(first), std::move(others)...));
}

/// Waits until at least one task of `handles` is done and gives its index; the lowest index if several are done. The
/// other tasks go on. Requires at least one handle. If the wait itself fails (a cycle of awaits, or the waiting task's
/// time-out), it gives handles.size().
template <class T>
auto when_any(std::vector<TaskHandle<T>> handles) {
  COHORT_ASSERT(!handles.empty(), "when_any needs a task to wait for");
  auto collect = [](const std::vector<TaskHandle<T>>& all) {
    std::size_t first = 0;
    while (first < all.size() && !all[first].is_done()) ++first;
    return first;
  };
  return internal::When<T, decltype(collect)>(std::move(handles), 1, collect);
}

template <class T, std::same_as<TaskHandle<T>>... Others>
auto when_any(TaskHandle<T> first, Others... others) {
  return when_any(internal::handle_vector(std::move(first), std::move(others)...));
}

}  // namespace cohort
