#include "cohort/task/task_scope.h"

#include <algorithm>
#include <iterator>

#include "cohort/base/mutex.h"

namespace cohort {

using internal::TaskRef;

struct TaskScope::Children {
  Mutex mutex;
  std::vector<TaskRef> open COHORT_GUARDED_BY(mutex);
  std::size_t prune_at COHORT_GUARDED_BY(mutex) = 64;
  bool cancelled COHORT_GUARDED_BY(mutex) = false;

  // Takes the ended children out. The caller drops them without the lock: results are destroyed with them.
  std::vector<TaskRef> take_ended() COHORT_REQUIRES(mutex) {
    const auto first_ended =
        std::partition(open.begin(), open.end(), [](const TaskRef& child) { return !child->is_done(); });
    std::vector<TaskRef> ended(std::make_move_iterator(first_ended), std::make_move_iterator(open.end()));
    open.erase(first_ended, open.end());
    return ended;
  }

  // Adds a child; true when it has to be cancelled at once. Forgets the ended ones whenever the list has doubled.
  bool add(internal::TaskRecord& record) {
    std::vector<TaskRef> ended;
    MutexLock lock(mutex);
    open.emplace_back(record);
    if (open.size() >= prune_at) {
      ended = take_ended();
      prune_at = std::max<std::size_t>(64, 2 * open.size());
    }
    return cancelled;
  }

  std::vector<TaskRef> still_open() {
    std::vector<TaskRef> ended;
    MutexLock lock(mutex);
    ended = take_ended();
    return open;
  }

  void cancel() {
    {
      MutexLock lock(mutex);
      cancelled = true;
    }
    for (const TaskRef& child : still_open()) internal::ExecutorAccess::cancel(*child);
  }
};

TaskScope::TaskScope(Executor& executor, std::stop_token stop)
    : executor_(executor), children_(std::make_shared<Children>()) {
  if (stop.stop_possible()) {
    on_stop_.emplace(std::move(stop), [children = children_] { children->cancel(); });
  }
}

TaskScope::~TaskScope() {
  on_stop_.reset();
  cancel();
  auto state = open_state();
  const auto error = internal::ExecutorAccess::await(*state, std::nullopt);
  if (!error) return;
  COHORT_ASSERT(error->code == ErrorCode::kTimedOut, "a task of a scope must not await the task that owns the scope");
  internal::ExecutorAccess::block(*open_state());
}

void TaskScope::adopt(internal::TaskRecord& record) {
  if (children_->add(record)) internal::ExecutorAccess::cancel(record);
}

void TaskScope::cancel() { children_->cancel(); }

internal::Ref<internal::AwaitState> TaskScope::open_state() const {
  std::vector<TaskRef> open = children_->still_open();
  const std::size_t need = open.size();
  return internal::AwaitState::make(std::move(open), need);
}

Result<void> TaskScope::join() {
  auto state = open_state();
  if (auto error = internal::ExecutorAccess::await(*state, std::nullopt)) return std::move(*error);
  return {};
}

}  // namespace cohort
