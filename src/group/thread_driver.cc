#include "group/thread_driver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/listener_scope.h"

namespace cohort::internal {
namespace {

constexpr Duration kWorthWaking = std::chrono::milliseconds(2);

std::uint32_t threads_of(const GroupExecutorOptions& options) {
  if (options.threads.was_negative()) return 1;
  return options.threads != 0 ? std::uint32_t{options.threads} : std::max(1U, std::thread::hardware_concurrency());
}

GroupExecutorOptions with_threads(GroupExecutorOptions options) {
  options.threads = threads_of(options);
  return options;
}

}  // namespace

ThreadDriver::ThreadDriver(ExecutorHome& home, GroupExecutorOptions options)
    : home_(home),
      clock_(options.clock != nullptr ? *options.clock : system_clock()),
      listener_(std::move(options.listener)),
      blocked_probe_(options.blocked_probe ? std::move(options.blocked_probe) : &is_blocked_in_kernel),
      threads_(threads_of(options)),
      max_threads_(std::max<std::uint32_t>(options.max_threads, threads_ + 1)),
      scheduler_(with_threads(std::move(options)), clock_.now()),
      policy_(scheduler_.policy()),
      keys_that_block_(scheduler_.keys_that_block()),
      keys_seen_(scheduler_.keys_seen()) {
  MutexLock lock(mutex_);
  shortest_queue_ = scheduler_.shortest_queue();
  for (std::uint32_t i = 0; i < threads_; ++i) scheduler_.add_idle_worker(clock_.now());
  watcher_ = std::thread([this] { watch(); });
  minder_ = std::thread([this] { mind(); });
}

ThreadDriver::~ThreadDriver() = default;

void ThreadDriver::end() {
  COHORT_ASSERT(driver_of_thread_ != this && own_task() == nullptr,
                "an executor cannot be destroyed on a thread of its own, or in a task of it, which it waits for");
  static_cast<void>(shutdown(Duration(0)));
  with_scheduler([](Scheduler<>& scheduler, Time now) { scheduler.fire_alarms(now); });
  const auto all_ended = [this]() COHORT_REQUIRES(mutex_) {
    return scheduler_.present() == 0 && scheduler_.chores_open() == 0;
  };
  wait_for_progress(all_ended, Time::max());
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& runner : runners_) runner->wake.notify_all();
    watch_wake_.notify_all();
    mind_wake_.notify_all();
  }
  wait_for_progress([this]() COHORT_REQUIRES(mutex_) { return live_threads_ == 0 && starting_ == 0; }, Time::max());
  watcher_.join();
  minder_.join();
  MutexLock lock(mutex_);
  std::thread last = std::move(last_ended_);
  lock.unlock();
  if (last.joinable()) last.join();
}

void ThreadDriver::resolve(const Group& group) { give_answer(group.key); }

void ThreadDriver::give_answer(std::string_view key) {
  const GroupLimits answer = policy_.ask(key);
  in_portions([&](Scheduler<>& scheduler, Time now) { return scheduler.resolved(key, answer, now); });
}

ResolvedLimits ThreadDriver::resolve(std::string_view key) {
  const bool known = with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.knows(key); });
  const GroupLimits answer = known ? GroupLimits() : policy_.ask(key);
  return with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.resolve(key, answer); });
}

void ThreadDriver::clear_limits(std::string_view key) {
  const GroupLimits answer = policy_.ask(key);
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.clear_limits(key, answer, now); });
}

Result<void> ThreadDriver::evict(std::string_view key) {
  const auto try_with = [&](const std::optional<GroupLimits>& answer) {
    return with_scheduler([&](Scheduler<>& scheduler, Time now) { return scheduler.evict(key, answer, now); });
  };
  Result<bool> evicted = try_with(std::nullopt);
  if (evicted && !*evicted) evicted = try_with(policy_.ask(key));
  return evicted ? Result<void>() : evicted.error();
}

// In steps. What the caller is to do itself it does after the last one: while there is a job the group starts nothing.
template <class Begin>
void ThreadDriver::end_work(Begin&& begin) {
  EndJob job;
  std::vector<Chore> own;
  bool begun = false;
  bool more = true;
  for (int holds = 1; more; ++holds) {
    const OutsideBody outside(&clock_);
    if (holds % kHoldsInARow == 0) std::this_thread::sleep_for(kBreath);
    Aftermath after;
    {
      MutexLock lock(mutex_);
      const Time now = clock_.now();
      take_in_all(now);
      more = std::exchange(begun, true) ? scheduler_.end_some(job, now) : begin(scheduler_, job, now);
      follow_up(after, now);
    }
    own.insert(own.end(), after.actions.own.begin(), after.actions.own.end());
    after.actions.own.clear();
    perform(after);
  }
  for (const Chore& chore : own) internal::perform(chore, *this);
}

void ThreadDriver::shutdown_group(std::string_view key) {
  end_work([&](Scheduler<>& scheduler, EndJob& job, Time now) { return scheduler.shutdown_group(key, job, now); });
}

void ThreadDriver::close_lease(const GroupLease& lease) {
  end_work([&](Scheduler<>& scheduler, EndJob& job, Time now) { return scheduler.close_lease(lease, job, now); });
}

// Takes tasks out of the inbox. Their lines are in another processor's cache: they are all asked for before the first
// one is needed.
std::span<const Arrival> ThreadDriver::fetch(Arrivals& arrivals, std::uint32_t most) {
  std::uint32_t count = 0;
  while (count < std::min(Turn::kMaxTasks, most)) {
    TaskRecord* record = inbox_.peek(count);
    if (record == nullptr) break;
    record->prefetch();
    arrivals[count++].record = record;
  }
  inbox_.pop(count);
  const std::span<Arrival> fetched(arrivals.data(), count);
  for (Arrival& each : fetched) {
    each.origin = internal::origin_of(each.record->note);
    each.full = full_of(each.record->note);
  }
  return fetched;
}

void ThreadDriver::take_in(Time now, std::uint32_t most) {
  Arrivals arrivals;
  while (most > 0) {
    const auto fetched = fetch(arrivals, most);
    if (fetched.empty()) break;
    scheduler_.submit_all(fetched, now);
    most -= static_cast<std::uint32_t>(fetched.size());
  }
}

// Everything that this thread, or one it has heard from, has submitted.
void ThreadDriver::take_in_all(Time now) {
  const std::uint64_t last = inbox_.next_ticket();
  while (!inbox_.is_drained_to(last)) {
    take_in(now, Inbox::kSize);
    if (inbox_.is_drained_to(last)) return;
    std::this_thread::yield();  // Somebody has a ticket and is about to use it.
  }
}

void ThreadDriver::look() {
  const OutsideBody outside(&clock_);
  Aftermath after;
  {
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in(now, has_many_refusals() ? 1 : kTakenInAtOnce);
    follow_up(after, now);
  }
  perform(after);
}

// To be called before the lock is released after any event.
void ThreadDriver::follow_up(Aftermath& after, Time now) {
  if (!minding_ && needs_minding()) after.notify_minder = begin_minding(now);
  // All of it: who left it there may have looked already, and not come so far.
  if (!attend() && !inbox_.looks_empty()) take_in(now, Inbox::kSize);

  if (scheduler_.has_actions()) follow_actions(after);
  shortest_queue_.store(scheduler_.shortest_queue(), std::memory_order_relaxed);
  if (progress_waiters_ != 0) progress_.notify_all();
  const Time next = scheduler_.next_timer().value_or(Time::max());
  if (next < watcher_sleeps_until_) {
    watcher_sleeps_until_ = Time::min();
    after.notify_watcher = true;
  }
}

void ThreadDriver::follow_actions(Aftermath& after) {
  Actions actions = scheduler_.take_actions();
  for (const TaskRecord* record : actions.let_go) call(*waiting_.at(record), after);
  for (const TaskRecord* record : actions.admit) {
    // From here on it is a task like any, whose own body may come to wait.
    const auto at_door = waiting_.find(record);
    if (at_door == waiting_.end()) continue;
    call(*at_door->second, after);
    waiting_.erase(at_door);
  }
  for (; actions.wake > 0; --actions.wake) {
    if (is_worth_waking()) {
      wake_one(after);
    } else {
      scheduler_.take_back_wake();
    }
  }
  if (after.actions.empty()) {
    after.actions = std::move(actions);
  } else if (!actions.empty()) {
    after.actions.append(std::move(actions));
  }
}

// Brings attended_ up to date and returns it.
bool ThreadDriver::attend() {
  const bool soon = minding_ && (scheduler_.idle_workers() == 0 || batches_ != 0);
  const bool attended = spinning_ != 0 || arriving_ != 0 || soon;
  if (attended != attended_.load(std::memory_order_relaxed)) attended_.store(attended, std::memory_order_seq_cst);
  return attended;
}

// Not while somebody in a very short turn comes back at once, and what waits is not too much for him: for tasks as
// short as that the lock is what costs, and a second worker mostly waits for it.
bool ThreadDriver::is_worth_waking() const { return short_turns_ == 0 || scheduler_.backlog() > kWorthWaking; }

// Gives a slot to a thread: to one that spins, to the one that rested last, or to a new one.
void ThreadDriver::wake_one(Aftermath& after) {
  if (resting_.empty()) {
    Runner& runner = spare_runner();
    runner.has_slot = runner.arrives = runner.starts = true;
    ++arriving_;
    ++starting_;
    after.start.push_back(&runner);
    return;
  }
  auto chosen = std::ranges::find(resting_.rbegin(), resting_.rend(), false, &Runner::asleep);
  if (chosen == resting_.rend()) chosen = resting_.rbegin();
  Runner& runner = **chosen;
  resting_.erase(std::next(chosen).base());
  runner.has_slot = runner.arrives = true;
  ++arriving_;
  call(runner, after);
}

void ThreadDriver::call(Runner& runner, Aftermath& after) {
  runner.called.store(true, std::memory_order_release);
  if (runner.asleep) after.notify.push_back(&runner);
}

void ThreadDriver::perform_all(Aftermath after) {
  for (Runner* runner : after.notify) runner->wake.notify_one();
  for (Runner* runner : after.start) start(*runner);
  for (const Chore& chore : after.actions.own) internal::perform(chore, *this);
}

void ThreadDriver::tell(TaskEvent::Kind kind, const TaskRecord& record, Time at, TaskStatus status) {
  const ListenerScope scope;
  try {
    listener_(event_of(kind, record, at, status));
  } catch (...) {
    // The documented meaning of a listener that throws.
  }
}

void ThreadDriver::follow(TaskRecord& record, TaskRecord& predecessor) {
  if (listener_) tell(TaskEvent::Kind::kSubmitted, record, clock_.now());
  const bool waits = with_scheduler([&](Scheduler<>& scheduler, Time now) {
    scheduler.follow(record, predecessor, origin_of(record), now);
    return record.phase == Phase::kDependent;
  });
  if (!waits) return;
  AwaitState::make(predecessor)->arm([this, follower = TaskRef(record)] {
    with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.release(*follower, now); });
  });
}

void ThreadDriver::cancel(TaskRecord& record) {
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.cancel(record, now); });
}

template <class Reached>
bool ThreadDriver::wait_for_progress(Reached&& reached, Time until) {
  Aftermath after;
  bool is_reached = false;
  {
    MutexLock lock(mutex_);
    ++progress_waiters_;
    for (;;) {
      const Time now = clock_.now();
      if (reached()) {
        // Unless something has been submitted, by a task that is gone by now, and not been looked at.
        take_in_all(now);
        follow_up(after, now);
        is_reached = reached();
      }
      if (is_reached || now >= until) break;
      if (!after.empty()) {
        lock.unlock();
        perform(after);
        lock.lock();
        continue;
      }
      if (until == Time::max()) {
        progress_.wait(mutex_);
      } else {
        progress_.wait_until(mutex_, std::chrono::steady_clock::now() + (until - now));
      }
    }
    --progress_waiters_;
  }
  perform(after);
  return is_reached;
}

// Inside a task it awaits what the group has open, and so is parked, and a circle is found.
Result<void> ThreadDriver::drain(std::string_view key, Duration timeout) {
  COHORT_ASSERT(!ListenerScope::is_inside(),
                "a listener must not drain a group: it runs on the threads that run tasks");
  TaskRecord* const task = current_task();  // Perhaps of another executor.
  const Time until = saturating_add(clock_.now(), timeout);
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.begin_drain(key, now); });
  std::unique_ptr<Error> conflict;
  bool drained = false;
  if (task == nullptr) {
    wait_for_progress([&]() COHORT_REQUIRES(mutex_) { return scheduler_.is_quiet(key); }, until);
    drained = with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.is_drained(key); });
  }
  while (task != nullptr && !drained && !conflict && clock_.now() < until) {
    std::vector<TaskRef> open = with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.open_tasks(key); });
    const std::size_t need = open.size();
    drained = need == 0;
    auto state = AwaitState::make(std::move(open), need);
    if (task == own_task()) {
      Awaiting awaiting(*state, false);
      conflict = refusal(*task, awaiting);
    }
    if (drained || conflict) break;
    // The time-out by the clock of the executor that the task belongs to.
    const Time now = ExecutorAccess::now(*task);
    conflict = ExecutorAccess::await(*state, until == Time::max() ? until : now + (until - clock_.now()));
  }
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.end_drain(key, now); });
  if (conflict) return std::move(*conflict);
  if (drained) return {};
  return Error{
      ErrorCode::kTimedOut, "group '" + std::string(key) + "' still had work when the time to drain ran out", {}};
}

Result<void> ThreadDriver::shutdown(Duration timeout) {
  COHORT_ASSERT(!ListenerScope::is_inside(),
                "a listener must not shut an executor down: it runs on the threads that run tasks");
  if (const TaskRecord* task = own_task()) {
    return Error{ErrorCode::kConflict, "task '" + task->task_id() + "' cannot shut down the executor that runs it", {}};
  }
  const Time until = saturating_add(clock_.now(), timeout);
  with_scheduler([](Scheduler<>& scheduler, Time now) { scheduler.close(now); });
  const auto is_quiet = [this]() COHORT_REQUIRES(mutex_) { return scheduler_.is_quiet(); };
  if (wait_for_progress(is_quiet, until)) return {};
  if (with_scheduler([](Scheduler<>& scheduler, Time) { return scheduler.is_drained(); })) return {};
  EndAll all;
  in_portions([&](Scheduler<>& scheduler, Time now) { return scheduler.cancel_all(all, now); });
  return Error{
      ErrorCode::kTimedOut, "tasks were left when the time to shut down ran out; they have been cancelled", {}};
}

}  // namespace cohort::internal
