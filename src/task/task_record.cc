#include "cohort/task/internal/task_record.h"

#include <array>

#include "cohort/base/mutex.h"
#include "cohort/task/internal/await_state.h"

namespace cohort::internal {
namespace {

thread_local TaskRecord* current = nullptr;

// A waiter list is touched only when somebody awaits, so all records share a few locks. A stripe is held for a few
// pointer writes and nothing is called under it.
Mutex& stripe_of(const TaskRecord& record) {
  static auto* stripes = new std::array<Mutex, 64>;
  const auto address = reinterpret_cast<std::uintptr_t>(&record);
  return (*stripes)[(address >> 6) % stripes->size()];
}

}  // namespace

TaskExtras::TaskExtras(TaskRecord& owner) : limit(owner, false), wake(owner, true) {}
TaskExtras::~TaskExtras() = default;

TaskRecord::~TaskRecord() = default;

TaskExtras& TaskRecord::extras() {
  if (!extras_) extras_ = std::make_unique<TaskExtras>(*this);
  return *extras_;
}

bool TaskRecord::try_begin() {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClaimed) == 0) {
    if (state_.compare_exchange_weak(state, state | kBegun, std::memory_order_acq_rel)) return true;
  }
  return false;
}

bool TaskRecord::claim(TaskStatus status, std::uint32_t unless) {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  const std::uint32_t claimed = kClaimed | (static_cast<std::uint32_t>(status) << kStatusShift);
  while ((state & unless) == 0) {
    if (state_.compare_exchange_weak(state, state | claimed, std::memory_order_acq_rel)) return true;
  }
  return false;
}

bool TaskRecord::try_claim(TaskStatus status) { return claim(status, kClaimed); }

bool TaskRecord::try_claim_unbegun(TaskStatus status) { return claim(status, kClaimed | kBegun); }

void TaskRecord::reclaim(TaskStatus status) {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  const auto with_status = [&] {
    constexpr std::uint32_t kFlags = (1U << kStatusShift) - 1;
    return (state & kFlags) | (static_cast<std::uint32_t>(status) << kStatusShift);
  };
  while (!state_.compare_exchange_weak(state, with_status(), std::memory_order_acq_rel)) {
  }
}

void TaskRecord::publish(Time ended) {
  ended_at = ended;
  const std::uint32_t before = state_.fetch_or(kPublished, std::memory_order_acq_rel);
  if ((before & kWaiters) == 0) return;
  for (;;) {
    Waiter* waiter = nullptr;
    {
      MutexLock lock(stripe_of(*this));
      waiter = waiters_.pop_front();
      if (waiter == nullptr) return;
      waiter->listed = false;
    }
    AwaitState* state = waiter->state;
    state->notify();
    state->unref();
  }
}

bool TaskRecord::add_waiter(Waiter& waiter) {
  MutexLock lock(stripe_of(*this));
  if ((state_.fetch_or(kWaiters, std::memory_order_acq_rel) & kPublished) != 0) return false;
  waiter.listed = true;
  waiters_.push_back(waiter);
  return true;
}

bool TaskRecord::remove_waiter(Waiter& waiter) {
  MutexLock lock(stripe_of(*this));
  if (!waiter.listed) return false;
  waiter.listed = false;
  waiters_.erase(waiter);
  return true;
}

TaskRecord* current_task() { return current; }

CurrentTaskScope::CurrentTaskScope(TaskRecord* record) : outer_(current) { current = record; }
CurrentTaskScope::~CurrentTaskScope() { current = outer_; }

}  // namespace cohort::internal
