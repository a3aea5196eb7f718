#include "cohort/task/internal/task_record.h"

#include <array>

#include "cohort/base/mutex.h"
#include "cohort/task/internal/await_state.h"

namespace cohort::internal {
namespace {

// A waiter list is touched only when somebody awaits, so all records share a few locks. A stripe is held for a few
// pointer writes and nothing is called under it.
Mutex& stripe_of(const TaskRecord& record) {
  static auto* stripes = new std::array<Mutex, 64>;
  const auto address = reinterpret_cast<std::uintptr_t>(&record);
  return (*stripes)[(address >> 6) % stripes->size()];
}

}  // namespace

TaskExtras::TaskExtras(TaskRecord& owner) : limit(owner, false), wake(owner, true) {}
TaskExtras::~TaskExtras() { delete stop.load(std::memory_order_relaxed); }

// Of a body that asks for a token while it is asked to stop, at least one side sees the other's store: all of these
// accesses, and the one that makes the extras, are sequentially consistent.
void TaskRecord::request_stop() {
  stop_requested_.store(true, std::memory_order_seq_cst);
  if (const TaskExtras* const there = extras_.load(std::memory_order_seq_cst)) {
    if (std::stop_source* const stop = there->stop.load(std::memory_order_seq_cst)) stop->request_stop();
  }
  on_stop();
}

std::stop_token TaskRecord::stop_token() {
  TaskExtras& all = extras();
  std::stop_source* stop = all.stop.load(std::memory_order_relaxed);
  if (stop == nullptr) {
    stop = new std::stop_source;
    all.stop.store(stop, std::memory_order_seq_cst);
    if (stop_requested_.load(std::memory_order_seq_cst)) stop->request_stop();
  }
  return stop->get_token();
}

std::optional<Time> TaskRecord::time_limit() const {
  const TaskExtras* const there = extras_if_any();
  if (there == nullptr) return std::nullopt;
  if (there->body_limit) return there->body_limit == Time::max() ? std::nullopt : there->body_limit;
  const SubmitOptions& options = there->options;
  std::optional<Time> limit = options.deadline;
  if (options.run_timeout) {
    limit = std::min(limit.value_or(Time::max()), saturating_add(started_at, *options.run_timeout));
  }
  return limit;
}

void TaskRecord::enter_group() { label_.own_lease().enter(); }
void TaskRecord::leave_group(Time now) { label_.own_lease().leave(now); }

TaskRecord::~TaskRecord() { delete extras_.load(std::memory_order_relaxed); }

TaskExtras& TaskRecord::make_extras() {
  auto made = std::make_unique<TaskExtras>(*this);
  TaskExtras* there = nullptr;
  if (extras_.compare_exchange_strong(there, made.get(), std::memory_order_seq_cst)) return *made.release();
  return *there;
}

const Error* TaskRecord::error() const {
  const TaskExtras* there = extras_if_any();
  return there != nullptr ? there->error.get() : nullptr;
}

void TaskRecord::set_error(Error error) { extras().error = std::make_unique<Error>(std::move(error)); }

bool TaskRecord::try_claim(TaskStatus status) {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  const std::uint32_t claimed = kClaimed | (static_cast<std::uint32_t>(status) << kStatusShift);
  while ((state & kClaimed) == 0) {
    if (state_.compare_exchange_weak(state, state | claimed, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void TaskRecord::reclaim(TaskStatus status) {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  const auto with_status = [&] {
    constexpr std::uint32_t kFlags = (1U << kStatusShift) - 1;
    return (state & kFlags) | (static_cast<std::uint32_t>(status) << kStatusShift);
  };
  while (!state_.compare_exchange_weak(state, with_status(), std::memory_order_acq_rel)) {
  }
}

void TaskRecord::notify_waiters() {
  {
    const CurrentTaskScope current(this, true);  // What follows from a task is submitted as if by it.
    on_end();
  }
  if (extras_if_any() == nullptr) return;
  for (;;) {
    Waiter* waiter = nullptr;
    {
      MutexLock lock(stripe_of(*this));
      waiter = extras().waiters.pop_front();
      if (waiter == nullptr) return;
      waiter->listed = false;
    }
    AwaitState* state = waiter->state;
    state->notify();
    state->unref();
  }
}

bool TaskRecord::add_waiter(Waiter& waiter) {
  IntrusiveList<Waiter>& list = extras().waiters;  // Made before publish may look for it.
  MutexLock lock(stripe_of(*this));
  if ((state_.fetch_or(kWaiters, std::memory_order_acq_rel) & kPublished) != 0) return false;
  waiter.listed = true;
  list.push_back(waiter);
  return true;
}

bool TaskRecord::remove_waiter(Waiter& waiter) {
  MutexLock lock(stripe_of(*this));
  if (!waiter.listed) return false;
  waiter.listed = false;
  extras().waiters.erase(waiter);
  return true;
}

}  // namespace cohort::internal
