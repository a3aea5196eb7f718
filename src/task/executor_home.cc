#include "cohort/task/internal/executor_home.h"

#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/assert.h"
#include "cohort/base/mutex.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {
namespace {

struct Vacant {
  Mutex mutex;
  std::vector<ExecutorHome*> homes COHORT_GUARDED_BY(mutex);
};

// The visits that this thread is inside, the innermost first.
constinit thread_local ExecutorHome::Visit* visits_of_thread = nullptr;

Vacant& vacant() {
  static auto* all = new Vacant;
  return *all;
}

}  // namespace

ExecutorHome& ExecutorHome::open(Executor& executor) {
  ExecutorHome* home = nullptr;
  {
    MutexLock lock(vacant().mutex);
    if (!vacant().homes.empty()) {
      home = vacant().homes.back();
      vacant().homes.pop_back();
    }
  }
  if (home == nullptr) home = new ExecutorHome;
  home->executor_.store(&executor, std::memory_order_relaxed);
  return *home;
}

void ExecutorHome::close() {
  COHORT_ASSERT(!is_visited_by_this_thread(),
                "an executor cannot be destroyed inside a call to one of its handles, which it waits for");
  while (visitors_.fetch_add(0, std::memory_order_acq_rel) != 0) std::this_thread::yield();
  MutexLock lock(vacant().mutex);
  vacant().homes.push_back(this);
}

bool ExecutorHome::is_visited_by_this_thread() const {
  const Visit* visit = visits_of_thread;
  while (visit != nullptr && visit->home_ != this) visit = visit->outer_;
  return visit != nullptr;
}

ExecutorHome::Visit::Visit(const TaskRecord& record)
    : home_(record.home), executor_(nullptr), outer_(visits_of_thread) {
  if (home_ == nullptr) return;
  visits_of_thread = this;
  home_->visitors_.fetch_add(1, std::memory_order_acq_rel);
  if (!record.is_done()) executor_ = &home_->executor();
}

ExecutorHome::Visit::~Visit() {
  if (home_ == nullptr) return;
  visits_of_thread = outer_;
  home_->visitors_.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace cohort::internal
