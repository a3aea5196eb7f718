#include "group/thread_driver.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace cohort::internal {
namespace {

// What is in TaskRecord::note: a Scheduler::Origin, and whether a full queue is to be waited for.
constexpr unsigned kOriginMask = 3;
constexpr unsigned kPaced = 4;

constexpr std::uint32_t kTakenInAtOnce = 256;
constexpr Duration kShortTurn = std::chrono::microseconds(8);
constexpr Duration kWorthWaking = std::chrono::milliseconds(2);
constexpr int kTriesForLock = 50;
constexpr Duration kSpin = std::chrono::microseconds(20);
constexpr Duration kLookEvery = std::chrono::milliseconds(1);
constexpr Duration kLongTask = std::chrono::microseconds(500);
constexpr Duration kSurplusStays = std::chrono::milliseconds(300);

std::uint32_t threads_of(const GroupExecutorOptions& options) {
  return options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

GroupExecutorOptions with_threads(GroupExecutorOptions options) {
  options.threads = threads_of(options);
  return options;
}

// What the kernel says: neither running nor waiting for a processor. One that is merely preempted is not blocked.
bool is_off_processor(std::int32_t thread_id) {
  const std::string path = "/proc/self/task/" + std::to_string(thread_id) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 128> text{};
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  if (size <= 0) return false;
  // "id (name) S ...": the name may hold anything, so the last parenthesis counts.
  const std::string_view line(text.data(), static_cast<std::size_t>(size));
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string_view::npos && name_end + 2 < line.size() && line[name_end + 2] != 'R';
}

// Lets a thread that runs no task wait for an AwaitState.
struct Signal {
  Mutex mutex;
  CondVar changed;
  bool set COHORT_GUARDED_BY(mutex) = false;
};

}  // namespace

thread_local ThreadDriver::Runner* ThreadDriver::current_runner_ = nullptr;

ThreadDriver::ThreadDriver(ExecutorHome& home, GroupExecutorOptions options)
    : home_(home),
      clock_(options.clock != nullptr ? *options.clock : system_clock()),
      listener_(std::move(options.listener)),
      blocked_probe_(options.blocked_probe ? std::move(options.blocked_probe) : &is_off_processor),
      threads_(threads_of(options)),
      max_threads_(std::max(options.max_threads, threads_ + 1)),
      scheduler_(with_threads(std::move(options)), clock_.now()) {
  MutexLock lock(mutex_);
  may_block_submitters_ = scheduler_.may_block_submitters();
  for (std::uint32_t i = 0; i < threads_; ++i) scheduler_.add_idle_worker(clock_.now());
  watcher_ = std::thread([this] { watch(); });
}

ThreadDriver::~ThreadDriver() = default;

void ThreadDriver::end() {
  static_cast<void>(shutdown(Duration(0)));
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

// ---- events and what follows from them

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
  bool was_full = false;
  inbox_.put(record, [&](auto has_room) {
    was_full = true;
    make_room(has_room);
  });
  if (!attended_.load(std::memory_order_seq_cst) || was_full) look();
}

void ThreadDriver::submit_or_wait(TaskRecord& record) {
  const bool at_door = with_scheduler([&](Scheduler<>& scheduler, Time now) {
    scheduler.submit(record, Scheduler<>::Origin::kOutside, Scheduler<>::FullQueue::kAsGroupSays, now);
    return record.phase == Phase::kAtDoor;
  });
  if (at_door) wait_for_progress([&] { return record.phase != Phase::kAtDoor; }, Time::max());
}

// Takes tasks out of the inbox. Their lines are in another processor's cache: they are all asked for before the first
// one is needed.
void ThreadDriver::take_in(Time now, std::uint32_t most) {
  constexpr std::uint32_t kBatch = 32;
  std::array<Scheduler<>::Submitted, kBatch> batch;
  while (most > 0) {
    std::uint32_t count = 0;
    while (count < std::min(kBatch, most)) {
      TaskRecord* record = inbox_.peek(count);
      if (record == nullptr) break;
      record->prefetch();
      batch[count++].record = record;
    }
    if (count == 0) break;
    inbox_.pop(count);
    for (Scheduler<>::Submitted& each : std::span(batch.data(), count)) {
      each.origin = static_cast<Scheduler<>::Origin>(each.record->note & kOriginMask);
      each.full =
          (each.record->note & kPaced) != 0 ? Scheduler<>::FullQueue::kBlock : Scheduler<>::FullQueue::kAsGroupSays;
    }
    scheduler_.submit_all(std::span(batch.data(), count), now);
    most -= count;
    if (count < kBatch) break;
  }
}

// Everything that this thread, or one it has heard from, has submitted.
void ThreadDriver::take_in_all(Time now) {
  const std::uint64_t last = inbox_.next_ticket();
  for (;;) {
    take_in(now, Inbox::kSize);
    if (inbox_.is_drained_to(last)) return;
    std::this_thread::yield();  // Somebody has a ticket and is about to use it.
  }
}

void ThreadDriver::look() {
  Chores chores;
  {
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in(now, kTakenInAtOnce);
    follow_up(chores, now);
  }
  perform(std::move(chores));
}

// For a submitter with a ticket and no place. He never waits for the lock: whoever holds it may be waiting for him to
// use his ticket. And he leaves the chores to others: what a user's code does there may need the next ticket.
template <class HasRoom>
void ThreadDriver::make_room(HasRoom has_room) {
  while (!has_room()) {
    if (mutex_.try_lock()) {
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
  if (scheduler_.may_block_submitters()) may_block_submitters_.store(true, std::memory_order_relaxed);
  if (progress_waiters_ != 0) progress_.notify_all();
  const Time next = std::min(scheduler_.next_timer().value_or(Time::max()), watching_ ? look_at_ : Time::max());
  if (next < watcher_sleeps_until_) {
    watcher_sleeps_until_ = Time::min();
    chores.notify_watcher = true;
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
bool ThreadDriver::is_worth_waking() const {
  return short_turns_ == 0 || spinning_ != 0 || scheduler_.backlog() > kWorthWaking;
}

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

void ThreadDriver::perform(Chores chores) {
  for (Runner* runner : chores.notify) runner->wake.notify_one();
  for (Runner* runner : chores.start) start(*runner);
  if (chores.notify_watcher) watch_wake_.notify_one();
  for (Actions::Settlement& each : chores.actions.settle) settle(each);
  for (const TaskRef& record : chores.actions.stop) record->request_stop();
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
  try {
    listener_(
        {.kind = kind, .group = record.label().key(), .task_id = record.label().id(), .status = status, .at = at});
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
        perform(std::exchange(chores, Chores()));
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
  perform(std::move(chores));
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

// ---- threads and slots

std::size_t ThreadDriver::thread_count() {
  MutexLock lock(mutex_);
  return live_threads_;
}

ThreadDriver::Runner& ThreadDriver::spare_runner() {
  for (auto& runner : runners_) {
    if (!runner->ended || runner->starts || runner->thread.joinable()) continue;
    ++live_threads_;
    runner->ended = false;
    return *runner;
  }
  runners_.push_back(std::make_unique<Runner>());
  ++live_threads_;
  runners_.back()->ended = false;
  return *runners_.back();
}

void ThreadDriver::start(Runner& runner) {
  std::thread thread;
  try {
    thread = std::thread([this, &runner] { work(runner); });
  } catch (...) {
    Chores chores;
    MutexLock lock(mutex_);
    --starting_;
    --live_threads_;
    ++unstarted_;  // The watcher tries again.
    runner.ended = true;
    runner.has_slot = runner.arrives = runner.starts = false;
    --arriving_;
    follow_up(chores, clock_.now());
    lock.unlock();
    perform(std::move(chores));
    return;
  }
  MutexLock lock(mutex_);
  --starting_;
  runner.starts = false;
  runner.thread = std::move(thread);
  if (progress_waiters_ != 0) progress_.notify_all();
}

void ThreadDriver::work(Runner& runner) {
  current_runner_ = &runner;
  {
    MutexLock lock(mutex_);
    runner.thread_id = static_cast<std::int32_t>(syscall(SYS_gettid));
  }
  while (next_turn(runner)) run_turn(runner);

  MutexLock lock(mutex_);
  runner.ended = true;
  --live_threads_;
  if (progress_waiters_ != 0) progress_.notify_all();
  watch_wake_.notify_one();  // To join it.
}

// Ends the turn that has been run, and takes the next, waiting for it if need be. False when the thread is to end.
bool ThreadDriver::next_turn(Runner& runner) {
  for (;;) {
    Chores chores;
    Next next = Next::kRest;
    {
      MutexLock lock(mutex_, kTriesForLock);
      const Time now = clock_.now();
      const bool was_blocked = runner.blocked;
      const bool arrived = std::exchange(runner.arrives, false);
      if (arrived) --arriving_;
      if (was_blocked && runner.turn->out && now - runner.turn->taken_at < kLongTask) {
        runner.turn->segments[0].group->tends_to_block = false;
      }
      if (runner.turn->out) scheduler_.finish(*runner.turn, now);
      if (runner.in_turn) leave_turn(runner);
      // One that stood in for a blocked body goes when that is back. That one itself looks for more of its kind first.
      // One that was woken takes a turn in any case, else the scheduler would wait for it.
      if (runner.has_slot && !was_blocked && !arrived && extra_slots_ > blocked_) {
        --extra_slots_;
        runner.has_slot = false;
      }
      if (runner.has_slot) {
        take_in(now, kTakenInAtOnce);
        next = take_turn(runner, now, chores);
      }
      follow_up(chores, now);
    }
    perform(std::move(chores));
    if (next == Next::kRun) return true;
    if (next == Next::kRest && !rest(runner)) return false;
  }
}

ThreadDriver::Next ThreadDriver::take_turn(Runner& runner, Time now, Chores& chores) {
  if (!scheduler_.take(*runner.turn, now)) {
    if (scheduler_.has_actions()) {
      // Users' code comes before rest: nobody may count on a thread that is busy with it. The watcher has an eye on it.
      scheduler_.remove_idle_worker();
      runner.turn->current_started.store(now.time_since_epoch().count(), std::memory_order_relaxed);
      enter_turn(runner, now);
      return Next::kLookAgain;
    }
    runner.has_slot = false;  // The scheduler counts it as idle.
    if (extra_slots_ > blocked_) {
      --extra_slots_;
      scheduler_.remove_idle_worker();
    }
    resting_.push_back(&runner);
    runner.spins = true;
    ++spinning_;
    return Next::kRest;
  }
  if (runner.turn->goes_on && runner.turn->tasks[0]->blocks_thread) {
    hand_over(runner, now, chores);
    return Next::kRest;
  }
  enter_turn(runner, now);
  runner.in_batch = runner.turn->count > 1;
  if (runner.in_batch) ++batches_;
  runner.in_short_turn = runner.in_batch && runner.turn->expected < kShortTurn;
  if (runner.in_short_turn) ++short_turns_;
  if (runner.turn->segments[0].group->tends_to_block) note_blocked(runner, now);
  return Next::kRun;
}

void ThreadDriver::enter_turn(Runner& runner, Time now) {
  runner.in_turn = true;
  ++runner.turns;
  runner.probe_at = now + kLongTask;
  runner.probe_after = kLongTask;
}

void ThreadDriver::leave_turn(Runner& runner) {
  runner.in_turn = false;
  leave_batch(runner);
  if (std::exchange(runner.blocked, false)) --blocked_;
}

// There is nothing in its turn any more that others could run, or it is not soon back from it.
void ThreadDriver::leave_batch(Runner& runner) {
  if (std::exchange(runner.in_batch, false)) --batches_;
  if (std::exchange(runner.in_short_turn, false)) --short_turns_;
}

// The turn belongs to a task whose thread waits for it: that one gets turn and slot.
void ThreadDriver::hand_over(Runner& from, Time now, Chores& chores) {
  Runner& to = *parked_.at(from.turn->tasks[0]);
  std::swap(from.turn, to.turn);
  to.turn->begin(now);
  from.has_slot = false;
  to.has_slot = true;
  enter_turn(to, now);
  call(to, chores);
}

void ThreadDriver::release_slot(Runner& runner, Time now) {
  if (!std::exchange(runner.has_slot, false)) return;
  if (extra_slots_ > blocked_) {
    --extra_slots_;
  } else {
    scheduler_.add_idle_worker(now);
  }
}

// A slot stands in for it.
void ThreadDriver::note_blocked(Runner& runner, Time now) {
  runner.blocked = true;
  ++blocked_;
  if (extra_slots_ >= blocked_ || threads_ + extra_slots_ >= max_threads_) return;
  ++extra_slots_;
  scheduler_.add_idle_worker(now);
}

// True when it is worth looking before the spin is over.
bool ThreadDriver::spin(const Runner& runner) const {
  const Time end = clock_.now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (runner.called.load(std::memory_order_acquire) || !inbox_.looks_empty()) return true;
      pause_processor();
    }
  } while (clock_.now() < end);
  return false;
}

// Waits for a slot; false when the thread is to end.
bool ThreadDriver::rest(Runner& runner) {
  const bool spun = runner.spins;  // Its own field until it takes the lock again.
  if (spun) static_cast<void>(spin(runner));
  Chores chores;
  MutexLock lock(mutex_);
  const auto called = [&] { return runner.called.load(std::memory_order_relaxed); };
  if (spun) {
    runner.spins = false;
    --spinning_;
  }
  if (!called() && !stopping_ && !inbox_.looks_empty() && scheduler_.idle_workers() != 0) {
    std::erase(resting_, &runner);
    scheduler_.remove_idle_worker();
    runner.has_slot = true;
    return true;
  }
  follow_up(chores, clock_.now());
  if (spun && !called()) std::erase(resting_, &runner);  // Nobody may count on it while it is busy with the chores.
  lock.unlock();
  perform(std::move(chores));
  lock.lock();
  if (!called()) resting_.push_back(&runner);
  const auto leave_at = std::chrono::steady_clock::now() + kSurplusStays;
  while (!called() && !stopping_) {
    runner.asleep = true;
    const bool surplus = resting_.size() > threads_;
    if (!surplus) {
      runner.wake.wait(mutex_);
    } else if (!runner.wake.wait_until(mutex_, leave_at) && !called() && resting_.size() > threads_) {
      break;
    }
  }
  runner.asleep = false;
  if (called()) {
    runner.called.store(false, std::memory_order_relaxed);
    return true;
  }
  std::erase(resting_, &runner);
  return false;
}

// ---- bodies

void ThreadDriver::run_turn(Runner& runner) {
  Time now = clock_.now();
  while (TaskRecord* record = runner.turn->begin(now)) {
    if (!run_body(*record, runner, now)) return;
  }
}

// False when the turn is no longer this thread's: the task suspended, or was let go. Sets `now` to the end of the task.
bool ThreadDriver::run_body(TaskRecord& record, Runner& runner, Time& now) {
  if (listener_ && !runner.turn->goes_on) tell(TaskEvent::Kind::kStarted, record, now);
  for (;;) {
    if (TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->await_request) {
      extras->await_request->disarm();  // What it waited for last; of a when_any some may be open.
      extras->await_request.reset();
    }
    bool ended = false;
    {
      CurrentTaskScope current(&record);
      ended = record.run();
    }
    if (ended) break;
    if (suspend(record, runner)) return false;
  }
  now = clock_.now();
  if (record.claimed_by_body) {
    if (listener_) tell(TaskEvent::Kind::kSettled, record, now, record.claimed_status());
    if (!record.let_go) runner.turn->measure(record, record.claimed_status(), now);
    record.publish(now);
  }
  if (!record.let_go) return true;
  with_scheduler([&](Scheduler<>& scheduler, Time at) { scheduler.finish_let_go(record, at); });
  return false;
}

// Does what a coroutine asked for. False when it can go on at once. Once the scheduler knows, another thread may run it
// and end it.
bool ThreadDriver::suspend(TaskRecord& record, Runner& runner) {
  const TaskRef alive(record);
  TaskExtras& extras = record.extras();
  if (!extras.await_request) {
    with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
      if (record.let_go) {
        scheduler.sleep_let_go(record, extras.sleep_until, now);
      } else {
        leave_turn(runner);
        scheduler.sleep(*runner.turn, extras.sleep_until, now);
      }
    });
    return true;
  }
  const Ref<AwaitState> state = extras.await_request;
  if (state->satisfied()) return false;
  bool waits = false;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    auto error = scheduler.check_await(record, *state, false, now);
    waits = error == nullptr;
    if (waits) {
      leave_turn(runner);
      scheduler.park(*runner.turn, *state, std::nullopt, now);
    } else {
      extras.await_error = std::move(error);
    }
  });
  if (waits) arm(record, *state);
  return waits;
}

void ThreadDriver::arm(TaskRecord& record, AwaitState& state) {
  state.arm([this, awaiter = TaskRef(record), &state] {
    // On the thread of whoever ended the awaited task, perhaps another executor's; and this one may have gone on by
    // itself, and been destroyed.
    const ExecutorHome::Visit visit(*awaiter);
    if (visit.executor() == nullptr) return;
    with_scheduler([&](Scheduler<>& scheduler, Time now) { scheduler.resume(*awaiter, state, now); });
  });
}

std::unique_ptr<Error> ThreadDriver::await(AwaitState& state, std::optional<Time> until) {
  TaskRecord* task = own_task();
  if (task == nullptr) {
    wait_outside(state, until);
    return nullptr;
  }
  Runner& runner = *current_runner_;
  std::unique_ptr<Error> error;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    error = scheduler.check_await(*task, state, until.has_value(), now);
    if (error) return;
    task->blocks_thread = true;
    parked_.emplace(task, &runner);
    leave_turn(runner);
    scheduler.park(*runner.turn, state, until, now);
    release_slot(runner, now);
  });
  if (error) return error;
  arm(*task, state);
  {
    MutexLock lock(mutex_);
    while (!runner.called.load(std::memory_order_relaxed)) {
      runner.asleep = true;
      runner.wake.wait(mutex_);
    }
    runner.asleep = false;
    runner.called.store(false, std::memory_order_relaxed);
    parked_.erase(task);
    task->blocks_thread = false;
    error = std::move(task->extras().await_error);
  }
  state.disarm();
  return error;
}

// For a body that has run out of time: it holds no permits that it could give back, so its thread just waits, and
// another takes its slot.
void ThreadDriver::block(AwaitState& state) {
  if (own_task() != nullptr) {
    Runner& runner = *current_runner_;
    with_scheduler([&](Scheduler<>&, Time now) COHORT_REQUIRES(mutex_) {
      if (std::exchange(runner.blocked, false)) --blocked_;
      release_slot(runner, now);
    });
  }
  wait_outside(state, std::nullopt);
}

void ThreadDriver::wait_outside(AwaitState& state, std::optional<Time> until) {
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
      const Duration left = *until - clock_.now();
      if (left <= Duration::zero()) break;
      signal->changed.wait_until(signal->mutex, saturating_add(std::chrono::steady_clock::now(), left));
    }
  }
  state.disarm();
}

// On a runner that exists only for this: no slot is used for what the caller's thread does.
void ThreadDriver::submit_here(TaskRecord& record) {
  if (listener_) tell(TaskEvent::Kind::kSubmitted, record, clock_.now());
  std::unique_ptr<Runner> guest;
  bool at_door = false;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    scheduler.submit(record, origin_of(record), Scheduler<>::FullQueue::kAsGroupSays, now);
    if (guests_.empty()) {
      guest = std::make_unique<Runner>();
    } else {
      guest = std::move(guests_.back());
      guests_.pop_back();
    }
    if (!scheduler.take_only(record, *guest->turn, now)) guests_.push_back(std::move(guest));
    at_door = record.phase == Phase::kAtDoor;
  });
  if (at_door) wait_for_progress([&] { return record.phase != Phase::kAtDoor; }, Time::max());
  if (!guest) return;
  Runner* outer = std::exchange(current_runner_, guest.get());
  run_turn(*guest);
  current_runner_ = outer;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    if (guest->turn->out) scheduler.finish(*guest->turn, now);
    if (guest->in_turn) leave_turn(*guest);
    release_slot(*guest, now);
    guests_.push_back(std::move(guest));
  });
}

// ---- the watcher

bool ThreadDriver::needs_watching() const { return scheduler_.idle_workers() == 0 || batches_ != 0 || unstarted_ != 0; }

void ThreadDriver::watch() {
  for (;;) {
    Chores chores;
    bool look_now = false;
    {
      MutexLock lock(mutex_);
      watcher_sleeps_until_ = Time::min();
      if (stopping_) return;
      const Time now = clock_.now();
      const Time timer = scheduler_.next_timer().value_or(Time::max());
      const Time next = std::min(timer, watching_ ? look_at_ : Time::max());
      if (timer <= now) {
        scheduler_.tick(now);
        follow_up(chores, now);
      } else if (watching_ && look_at_ <= now) {
        look_now = true;
      } else {
        watcher_sleeps_until_ = next;
        if (next == Time::max()) {
          watch_wake_.wait(mutex_);
        } else {
          watch_wake_.wait_until(mutex_, saturating_add(std::chrono::steady_clock::now(), next - now));
        }
        watcher_sleeps_until_ = Time::min();
      }
    }
    perform(std::move(chores));
    if (look_now) look_around();
    join_ended();
  }
}

void ThreadDriver::look_around() {
  struct Suspect {
    Runner* runner;
    std::uint64_t turns;
    std::uint32_t begun;
    std::int32_t thread_id;
    bool blocked = false;
  };
  std::vector<Suspect> suspects;
  {
    Chores chores;
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in(now, kTakenInAtOnce);
    for (const auto& runner : runners_) {
      if (!runner->in_turn || !runner->has_slot || (runner->blocked && !runner->in_batch)) continue;
      Turn& turn = *runner->turn;
      const Time started(Duration(turn.current_started.load(std::memory_order_relaxed)));
      if (now - started < kLongTask) continue;
      scheduler_.give_back(turn, now);
      leave_batch(*runner);
      if (runner->blocked || now < runner->probe_at) continue;
      suspects.push_back({runner.get(), runner->turns, turn.begun(), runner->thread_id});
    }
    follow_up(chores, now);
    lock.unlock();
    perform(std::move(chores));
  }
  // A system call each: not under the lock.
  for (Suspect& each : suspects) {
    try {
      each.blocked = blocked_probe_(each.thread_id);
    } catch (...) {
      // Who cannot tell says no.
    }
  }
  Chores chores;
  MutexLock lock(mutex_);
  const Time now = clock_.now();
  for (const Suspect& each : suspects) {
    Runner& runner = *each.runner;
    if (!runner.in_turn || runner.turns != each.turns || runner.turn->begun() != each.begun) continue;
    if (each.blocked) {
      if (each.begun != 0) runner.turn->tasks[each.begun - 1]->group->tends_to_block = true;
      note_blocked(runner, now);
    } else {
      runner.probe_after = std::min<Duration>(2 * runner.probe_after, std::chrono::milliseconds(50));
      runner.probe_at = now + runner.probe_after;
    }
  }
  const bool retries = unstarted_ != 0;
  for (; unstarted_ > 0; --unstarted_) wake_one(chores);
  watching_ = needs_watching() || retries;
  look_at_ = now + kLookEvery;
  follow_up(chores, now);
  lock.unlock();
  perform(std::move(chores));
}

void ThreadDriver::join_ended() {
  std::vector<std::thread> ended;
  {
    MutexLock lock(mutex_);
    for (auto& runner : runners_) {
      if (runner->ended && runner->thread.joinable()) ended.push_back(std::move(runner->thread));
    }
  }
  for (std::thread& thread : ended) thread.join();
}

}  // namespace cohort::internal
