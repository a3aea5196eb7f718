#include "cohort/task/internal/await_state.h"

#include <algorithm>
#include <utility>

#include "cohort/base/mutex.h"

namespace cohort::internal {

AwaitState::AwaitState(std::vector<TaskRef> records, std::size_t need)
    : need_(need),
      remaining_(static_cast<std::ptrdiff_t>(need)),
      records_(std::move(records)),
      waiters_(std::make_unique<Waiter[]>(records_.size())) {}

Ref<AwaitState> AwaitState::make(std::vector<TaskRef> records, std::size_t need) {
  COHORT_ASSERT(need <= records.size(), "an AwaitState cannot need more tasks than it has records");
  return Ref<AwaitState>::adopt(new AwaitState(std::move(records), need));
}

Ref<AwaitState> AwaitState::make(TaskRecord& record) {
  std::vector<TaskRef> records;
  records.emplace_back(record);
  return make(std::move(records), 1);
}

void AwaitState::arm(Function<void()> on_satisfied) {
  const Ref<AwaitState> alive(*this);  // The one who waits may be through before this loop is.
  on_satisfied_ = std::move(on_satisfied);
  // One more than needed, so that nothing is satisfied before all are listed.
  remaining_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    waiters_[i].state = this;
    ref();
    if (!records_[i]->add_waiter(waiters_[i])) {
      notify();
      unref();
    }
  }
  notify();
}

void AwaitState::disarm() {
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (records_[i]->remove_waiter(waiters_[i])) unref();
  }
}

bool AwaitState::is_from_outside() const {
  return std::ranges::all_of(records_, [](const TaskRef& each) { return each->is_promise() && each->home == nullptr; });
}

bool AwaitState::satisfied() const {
  std::size_t done = 0;
  for (const TaskRef& record : records_) done += record->is_done() ? 1 : 0;
  return done >= need_;
}

void AwaitState::notify() {
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Function<void()> call = std::move(on_satisfied_);
  call();
}

namespace {

struct Signal {
  Mutex mutex;
  CondVar changed;
  bool set COHORT_GUARDED_BY(mutex) = false;
};

}  // namespace

void wait_on_this_thread(AwaitState& state, std::optional<Time> until, Clock& clock) {
  // Shared with the notification, which may still be under way when a timed wait is over.
  const auto signal = std::make_shared<Signal>();
  state.arm([signal] {
    MutexLock lock(signal->mutex);
    signal->set = true;
    signal->changed.notify_all();
  });
  {
    MutexLock lock(signal->mutex);
    while (!signal->set) {
      if (!until) {
        signal->changed.wait(signal->mutex);
        continue;
      }
      const Duration left = *until - clock.now();
      if (left <= Duration::zero()) break;
      signal->changed.wait_until(signal->mutex, saturating_add(std::chrono::steady_clock::now(), left));
    }
  }
  state.disarm();
}

}  // namespace cohort::internal
