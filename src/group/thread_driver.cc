#include "group/thread_driver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cohort/task/internal/listener_scope.h"

namespace cohort::internal {
namespace {

// What is in TaskRecord::note: a Scheduler::Origin, and whether a full queue is to be waited for.
constexpr unsigned kOriginMask = 3;
constexpr unsigned kPaced = 4;

constexpr int kTriesForRoom = 1000;
constexpr Duration kWorthWaking = std::chrono::milliseconds(2);

std::uint32_t threads_of(const GroupExecutorOptions& options) {
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
      has_resolver_(static_cast<bool>(options.resolver)),
      scheduler_(with_threads(std::move(options)), clock_.now()) {
  MutexLock lock(mutex_);
  may_block_submitters_ = scheduler_.may_block_submitters();
  shortest_queue_ = scheduler_.shortest_queue();
  for (std::uint32_t i = 0; i < threads_; ++i) scheduler_.add_idle_worker(clock_.now());
  watcher_ = std::thread([this] { watch(); });
}

ThreadDriver::~ThreadDriver() = default;

void ThreadDriver::end() {
  COHORT_ASSERT(driver_of_thread_ != this,
                "an executor cannot be destroyed on a thread of its own, which it waits for");
  static_cast<void>(shutdown(Duration(0)));
  with_scheduler([](Scheduler<>& scheduler, Time now) { scheduler.fire_alarms(now); });
  wait_for_progress([this]() COHORT_REQUIRES(mutex_) { return scheduler_.present() == 0; }, Time::max());
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (auto& runner : runners_) runner->wake.notify_all();
    watch_wake_.notify_all();
  }
  wait_for_progress([this]() COHORT_REQUIRES(mutex_) { return live_threads_ == 0 && starting_ == 0; }, Time::max());
  watcher_.join();
  join_ended();
}

TaskRecord* ThreadDriver::own_task() const {
  TaskRecord* task = current_task();
  return task != nullptr && task->home == &home_ ? task : nullptr;
}

Scheduler<>::Origin ThreadDriver::origin_of(const TaskRecord& record) const {
  const TaskRecord* submitter = own_task();
  if (submitter == nullptr) return Scheduler<>::Origin::kOutside;
  return submitter->label().key() == record.label().key() ? Scheduler<>::Origin::kSameGroup
                                                          : Scheduler<>::Origin::kOtherGroup;
}

void ThreadDriver::submit(TaskRecord& record, bool paced) {
  record.submitted_at = clock_.now();
  if (listener_) tell(TaskEvent::Kind::kSubmitted, record, record.submitted_at);
  const Scheduler<>::Origin origin = origin_of(record);
  if (may_block_submitters_.load(std::memory_order_relaxed) && origin == Scheduler<>::Origin::kOutside && !paced) {
    return submit_or_wait(record);
  }
  record.note = static_cast<std::uint8_t>(static_cast<unsigned>(origin) | (paced ? kPaced : 0U));
  leave_in_inbox(std::array{&record});
}

// With one look at the clock and one at who attends. Not where one of them may have to block the submitter, which the
// resolver may say only when it is asked.
void ThreadDriver::submit_all(std::span<TaskRecord* const> records, bool paced) {
  const bool may_block = has_resolver_ || may_block_submitters_.load(std::memory_order_relaxed);
  if (may_block && !paced && own_task() == nullptr) {
    for (TaskRecord* record : records) submit(*record, paced);
    return;
  }
  const Time now = clock_.now();
  for (TaskRecord* record : records) {
    record->submitted_at = now;
    if (listener_) tell(TaskEvent::Kind::kSubmitted, *record, now);
    record->note = static_cast<std::uint8_t>(static_cast<unsigned>(origin_of(*record)) | (paced ? kPaced : 0U));
  }
  while (!records.empty()) {
    const std::size_t count = std::min(records.size(), std::size_t{Turn::kMaxTasks});
    leave_in_inbox(records.first(count));
    records = records.subspan(count);
  }
}

void ThreadDriver::leave_in_inbox(std::span<TaskRecord* const> records) {
  inbox_.put(records, [&](auto has_room) { make_room(has_room); });
  if (!attended_.load(std::memory_order_seq_cst)) look();
}

void ThreadDriver::submit_or_wait(TaskRecord& record) {
  const bool at_door = with_scheduler([&](Scheduler<>& scheduler, Time now) {
    scheduler.submit(record, Scheduler<>::Origin::kOutside, Scheduler<>::FullQueue::kAsGroupSays, now);
    return record.phase == Phase::kAtDoor;
  });
  if (at_door) wait_at_door(record);
}

void ThreadDriver::wait_at_door(const TaskRecord& record) {
  wait_for_progress([&] { return record.phase != Phase::kAtDoor; }, Time::max());
}

// Takes tasks out of the inbox. Their lines are in another processor's cache: they are all asked for before the first
// one is needed.
std::span<const Scheduler<>::Submitted> ThreadDriver::fetch(Arrivals& arrivals, std::uint32_t most) {
  std::uint32_t count = 0;
  while (count < std::min(Turn::kMaxTasks, most)) {
    TaskRecord* record = inbox_.peek(count);
    if (record == nullptr) break;
    record->prefetch();
    arrivals[count++].record = record;
  }
  inbox_.pop(count);
  const std::span<Scheduler<>::Submitted> fetched(arrivals.data(), count);
  for (Scheduler<>::Submitted& each : fetched) {
    each.origin = static_cast<Scheduler<>::Origin>(each.record->note & kOriginMask);
    each.full =
        (each.record->note & kPaced) != 0 ? Scheduler<>::FullQueue::kBlock : Scheduler<>::FullQueue::kAsGroupSays;
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
  const OutsideBody outside;
  Chores chores;
  {
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in(now, kTakenInAtOnce);
    follow_up(chores, now);
  }
  perform(chores);
}

// For a submitter with a ticket and no place. As long as somebody is about to take tasks out he gives him a moment: the
// less he is ahead of the workers, the more of what they need is still in a cache. He never waits for the lock: whoever
// holds it may be waiting for him to use his ticket. And he leaves the chores to others: what a user's code does there
// may need the next ticket.
template <class HasRoom>
void ThreadDriver::make_room(HasRoom has_room) {
  for (int tries = 0; !has_room(); ++tries) {
    if (tries < kTriesForRoom && attended_.load(std::memory_order_relaxed)) {
      pause_processor();
    } else if (mutex_.try_lock()) {
      take_in(clock_.now(), kTakenInAtOnce);
      mutex_.unlock();
    } else {
      std::this_thread::yield();
    }
  }
}

// To be called before the lock is released after any event.
void ThreadDriver::follow_up(Chores& chores, Time now) {
  if (!watching_ && needs_watching()) {
    watching_ = true;
    look_at_ = now + kLookEvery;
  }
  // All of it: who left it there may have looked already, and not come so far.
  if (!attend() && !inbox_.looks_empty()) take_in(now, Inbox::kSize);

  if (scheduler_.has_actions()) follow_actions(chores);
  if (scheduler_.may_block_submitters()) may_block_submitters_.store(true, std::memory_order_relaxed);
  shortest_queue_.store(scheduler_.shortest_queue(), std::memory_order_relaxed);
  if (progress_waiters_ != 0) progress_.notify_all();
  const Time next = std::min(scheduler_.next_timer().value_or(Time::max()), look_time());
  if (next < watcher_sleeps_until_) {
    watcher_sleeps_until_ = Time::min();
    chores.notify_watcher = true;
  }
}

void ThreadDriver::follow_actions(Chores& chores) {
  Actions actions = scheduler_.take_actions();
  for (const TaskRef& record : actions.let_go) call(*parked_.at(record.get()), chores);
  for (; actions.wake > 0; --actions.wake) {
    if (is_worth_waking()) {
      wake_one(chores);
    } else {
      scheduler_.take_back_wake();
    }
  }
  if (chores.actions.empty()) {
    chores.actions = std::move(actions);
  } else if (!actions.empty()) {
    chores.actions.append(std::move(actions));
  }
}

// Brings attended_ up to date and returns it.
bool ThreadDriver::attend() {
  const bool soon = watching_ && (scheduler_.idle_workers() == 0 || batches_ != 0);
  const bool attended = spinning_ != 0 || arriving_ != 0 || soon;
  if (attended != attended_.load(std::memory_order_relaxed)) attended_.store(attended, std::memory_order_seq_cst);
  return attended;
}

// Not while somebody in a very short turn comes back at once, and what waits is not too much for him: for tasks as
// short as that the lock is what costs, and a second worker mostly waits for it.
bool ThreadDriver::is_worth_waking() const { return short_turns_ == 0 || scheduler_.backlog() > kWorthWaking; }

// Gives a slot to a thread: to one that spins, to the one that rested last, or to a new one.
void ThreadDriver::wake_one(Chores& chores) {
  if (resting_.empty()) {
    Runner& runner = spare_runner();
    runner.has_slot = runner.arrives = runner.starts = true;
    ++arriving_;
    ++starting_;
    chores.start.push_back(&runner);
    return;
  }
  auto chosen = std::ranges::find(resting_.rbegin(), resting_.rend(), false, &Runner::asleep);
  if (chosen == resting_.rend()) chosen = resting_.rbegin();
  Runner& runner = **chosen;
  resting_.erase(std::next(chosen).base());
  runner.has_slot = runner.arrives = true;
  ++arriving_;
  call(runner, chores);
}

void ThreadDriver::call(Runner& runner, Chores& chores) {
  runner.called.store(true, std::memory_order_release);
  if (runner.asleep) chores.notify.push_back(&runner);
}

void ThreadDriver::perform_all(Chores chores) {
  for (Runner* runner : chores.notify) runner->wake.notify_one();
  for (Runner* runner : chores.start) start(*runner);
  for (Actions::Settlement& each : chores.actions.settle) settle(each);
  for (const TaskRef& record : chores.actions.stop) record->request_stop();
  for (Function<void()>& call : chores.actions.calls) call();
}

void ThreadDriver::settle(Actions::Settlement& settlement) {
  TaskRecord& record = *settlement.record;
  record.set_error(std::move(settlement.error));
  if (!settlement.ran) record.drop_body();
  const Time now = clock_.now();
  if (listener_) tell(TaskEvent::Kind::kSettled, record, now, record.status());
  record.publish(now);
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
  Chores chores;
  bool is_reached = false;
  {
    MutexLock lock(mutex_);
    ++progress_waiters_;
    for (;;) {
      const Time now = clock_.now();
      if (reached()) {
        // Unless something has been submitted, by a task that is gone by now, and not been looked at.
        take_in_all(now);
        follow_up(chores, now);
        is_reached = reached();
      }
      if (is_reached || now >= until) break;
      if (!chores.empty()) {
        lock.unlock();
        perform(chores);
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
  perform(chores);
  return is_reached;
}

// Inside a task it awaits what the group has open, and so is parked, and a circle is found.
Result<void> ThreadDriver::drain(std::string_view key, Duration timeout) {
  TaskRecord* task = own_task();
  const Time until = saturating_add(clock_.now(), timeout);
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.begin_drain(key, now); });
  std::unique_ptr<Error> conflict;
  bool drained = false;
  if (task == nullptr) {
    drained = wait_for_progress([&]() COHORT_REQUIRES(mutex_) { return scheduler_.is_drained(key); }, until);
  }
  while (task != nullptr && !drained && !conflict && clock_.now() < until) {
    std::vector<TaskRef> open = with_scheduler([&](Scheduler<>& scheduler, Time) { return scheduler.open_tasks(key); });
    const std::size_t need = open.size();
    drained = need == 0;
    auto state = AwaitState::make(std::move(open), need);
    conflict = with_scheduler(
        [&](Scheduler<>& scheduler, Time now) { return scheduler.check_await(*task, *state, false, now); });
    if (!drained && !conflict) conflict = await(*state, until == Time::max() ? std::nullopt : std::optional(until));
  }
  with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.end_drain(key, now); });
  if (conflict) return std::move(*conflict);
  if (drained) return {};
  return Error{
      ErrorCode::kTimedOut, "group '" + std::string(key) + "' still had work when the time to drain ran out", {}};
}

Result<void> ThreadDriver::shutdown(Duration timeout) {
  if (const TaskRecord* task = own_task()) {
    return Error{ErrorCode::kConflict, "task '" + task->task_id() + "' cannot shut down the executor that runs it", {}};
  }
  const Time until = saturating_add(clock_.now(), timeout);
  with_scheduler([](Scheduler<>& scheduler, Time now) { scheduler.close(now); });
  const auto drained = [this]() COHORT_REQUIRES(mutex_) { return scheduler_.is_drained(); };
  if (wait_for_progress(drained, until)) return {};
  with_scheduler([](Scheduler<>& scheduler, Time now) { scheduler.cancel_all(now); });
  return Error{
      ErrorCode::kTimedOut, "tasks were left when the time to shut down ran out; they have been cancelled", {}};
}

}  // namespace cohort::internal
