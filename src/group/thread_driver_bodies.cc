// Part of ThreadDriver: bodies; how they run, suspend, await and block.

#include <algorithm>
#include <optional>
#include <utility>

#include "cohort/task/internal/executor_access.h"
#include "group/thread_driver.h"

namespace cohort::internal {

thread_local ThreadDriver::Runner* ThreadDriver::current_runner_ = nullptr;

// Gives the time at its end.
Time ThreadDriver::run_turn(Runner& runner, Time now) {
  if (runner.turn->of_chores) return run_chores(runner, now);
  while (TaskRecord* record = runner.turn->begin(now)) {
    if (!run_body(*record, runner, now)) return clock_.now();
  }
  return now;
}

// Until they have taken as long as a turn should; the rest goes back.
Time ThreadDriver::run_chores(Runner& runner, Time now) {
  const Time end = now + Turn::kLength;
  runner.enter_body();
  while (const Chore* chore = runner.turn->begin_chore(now)) {
    internal::perform(*chore, *this);
    now = clock_.now();
    if (now >= end) break;
  }
  runner.leave_body();
  runner.turn->left_body = now;
  return now;
}

// False when the turn is no longer this thread's: the task suspended, or was let go. Sets `now` to the end of the task.
bool ThreadDriver::run_body(TaskRecord& record, Runner& runner, Time& now) {
  runner.outside = Duration(0);
  runner.enter_body();  // The listener is users' code too.
  if (listener_ && !runner.turn->goes_on) tell(TaskEvent::Kind::kStarted, record, now);
  for (;;) {
    if (TaskExtras* extras = record.extras_if_any(); extras != nullptr && extras->await_request) {
      extras->await_request->disarm();  // What it waited for last; of a when_any some may be open.
      extras->await_request.reset();
    }
    bool ended = false;
    {
      CurrentTaskScope current(&record);
      runner.enter_body();
      ended = record.run();
    }
    if (ended) {
      // Nobody can see its value any more: it is dropped while its time is measured.
      if (record.drops_users_code && !record.kept && record.has_one_reference()) record.drop_value();
      break;
    }
    // What comes now is waiting for this driver's own lock, which is neither the body's time nor its blocking.
    runner.leave_body();
    note_outside(record, runner);
    runner.turn->left_body = clock_.now();
    if (suspend(record, runner)) return false;
    runner.turn->left_body = Time::max();
  }
  now = std::max(clock_.now(), record.started_at);
  note_outside(record, runner);
  if (record.claimed_by_body) {
    if (listener_) tell(TaskEvent::Kind::kSettled, record, now, record.claimed_status());
    if (!record.let_go) runner.turn->measure(record, record.claimed_status(), now);
    const bool told = record.publish(now);
    if (told || listener_) now = clock_.now();  // What they did is no time of the next task's.
  }
  runner.leave_body();  // Not before: a result's waiters may be user code too.
  runner.turn->left_body = now;
  if (!record.let_go) return true;
  with_scheduler([&](Scheduler<>& scheduler, Time at) { scheduler.finish_let_go(record, at); });
  return false;
}

// Tells the turn for how long the body has waited for the driver.
void ThreadDriver::note_outside(const TaskRecord& record, Runner& runner) {
  const Duration outside = std::exchange(runner.outside, Duration(0));
  if (outside != Duration(0) && !record.let_go) runner.turn->note_outside(outside);
}

// False: it changes nothing, in a nested region or in a body that has been found blocked already.
bool ThreadDriver::begin_blocking() {
  if (current_runner_ == nullptr || &current_runner_->driver != this) return false;  // Not in a body of this driver.
  Runner& runner = *current_runner_;
  return with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    if (!runner.has_slot || runner.blocked) return false;
    scheduler.give_back(*runner.turn, now);
    leave_batch(runner);
    note_blocked(runner, now);
    return true;
  });
}

void ThreadDriver::end_blocking() {
  Runner& runner = *current_runner_;
  with_scheduler([&](Scheduler<>&, Time) COHORT_REQUIRES(mutex_) {
    if (std::exchange(runner.blocked, false)) --blocked_;
  });
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
  Awaiting awaiting(*state, false);
  auto verdict = Awaiting::Verdict::kMay;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    verdict = scheduler.check_await(record, awaiting, now);
    if (verdict != Awaiting::Verdict::kMay) return;
    leave_turn(runner);
    scheduler.park(*runner.turn, awaiting, std::nullopt, now);
  });
  if (verdict != Awaiting::Verdict::kMay) {
    extras.await_error = error_of(verdict, record, awaiting);
    return false;
  }
  begin_await(record, awaiting);
  return true;
}

std::unique_ptr<Error> ThreadDriver::error_of(Awaiting::Verdict verdict, const TaskRecord& task,
                                              const Awaiting& awaiting) {
  if (verdict == Awaiting::Verdict::kMay) return nullptr;
  if (verdict == Awaiting::Verdict::kOutOfTime) return std::make_unique<Error>(out_of_time_error(task));
  return std::make_unique<Error>(cycle_error(task, awaiting.cycle));
}

// Why the task must not wait, looking at all that is awaited; null when it may.
std::unique_ptr<Error> ThreadDriver::refusal(TaskRecord& task, Awaiting& awaiting) {
  auto verdict = Awaiting::Verdict::kMay;
  do {
    verdict =
        with_scheduler([&](Scheduler<>& scheduler, Time now) { return scheduler.check_await(task, awaiting, now); });
  } while (verdict == Awaiting::Verdict::kMay && awaiting.checked < awaiting.state.records().size());
  return error_of(verdict, task, awaiting);
}

// The task is parked: looks at what is left of the awaited, and has it told when they are done.
void ThreadDriver::begin_await(TaskRecord& record, Awaiting& awaiting) {
  AwaitState& state = awaiting.state;
  if (!awaiting.is_through()) {
    in_portions([&](Scheduler<>& scheduler, Time now) {
      return scheduler.check_more(record, awaiting, now) && !awaiting.is_through();
    });
  }
  if (awaiting.is_far && awaiting.cycle.empty()) {
    ExecutorAccess::mark_awaited_elsewhere(record, state);
    awaiting.cycle = FarWaits::all().break_cycle(record);
  }
  if (!awaiting.cycle.empty()) {
    auto error = error_of(Awaiting::Verdict::kCycle, record, awaiting);
    with_scheduler(
        [&](Scheduler<>& scheduler, Time now) { scheduler.fail_await(record, state, std::move(error), now); });
    return;
  }
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
  if (task == nullptr || task_of_this_thread_has_ended) {
    wait_on_this_thread(state, until, clock_);
    return nullptr;
  }
  Runner& runner = *current_runner_;
  note_outside(*task, runner);
  runner.turn->left_body = clock_.now();
  Awaiting awaiting(state, until.has_value());
  auto verdict = Awaiting::Verdict::kMay;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    verdict = scheduler.check_await(*task, awaiting, now);
    if (verdict != Awaiting::Verdict::kMay) return;
    task->blocks_thread = true;
    waiting_.emplace(task, &runner);
    leave_turn(runner);
    scheduler.park(*runner.turn, awaiting, until, now);
    release_slot(runner, now);
  });
  if (verdict != Awaiting::Verdict::kMay) {
    runner.turn->left_body = Time::max();
    return error_of(verdict, *task, awaiting);
  }
  begin_await(*task, awaiting);
  {
    const OutsideBody outside(nullptr);  // It is woken by the driver, and may wait for the lock then.
    MutexLock lock(mutex_);
    while (!runner.called.load(std::memory_order_relaxed)) {
      runner.asleep = true;
      runner.wake.wait(mutex_);
    }
    runner.asleep = false;
    runner.called.store(false, std::memory_order_relaxed);
    waiting_.erase(task);
    task->blocks_thread = false;
    runner.outside = Duration(0);
    if (!task->let_go) runner.turn->entered_body = clock_.now();
  }
  state.disarm();
  return collect_await_error(*task);
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
  wait_on_this_thread(state, std::nullopt, clock_);
}

// On a runner that exists only for this: no slot is used for what the caller's thread does.
void ThreadDriver::submit_here(TaskRecord& record) {
  if (listener_) tell(TaskEvent::Kind::kSubmitted, record, clock_.now());
  if (policy_.has_resolver()) be_resolved(record);
  std::unique_ptr<Runner> guest;
  std::unique_ptr<Runner> at_door;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    scheduler.submit(record, origin_of(record), may_wait_at_door() ? FullQueue::kCallerWaits : FullQueue::kNeverWait,
                     now);
    guest = take_guest();
    if (!scheduler.take_only(record, *guest->turn, now)) guests_.push_back(std::move(guest));
    if (record.phase == Phase::kAtDoor) at_door = stand_at_door(record);
  });
  if (at_door) wait_at_door(record, std::move(at_door));
  if (guest) run_on_guest(std::move(guest));
}

// Runs the turn that a guest has been given, and ends it.
void ThreadDriver::run_on_guest(std::unique_ptr<Runner> guest) {
  const Time end = run_guest(*guest, clock_.now());
  Aftermath after;
  const OutsideBody outside(nullptr);
  {
    MutexLock lock(mutex_);
    take_in_all(end);
    end_guest(*guest, end);
    guests_.push_back(std::move(guest));
    follow_up(after, end);
  }
  perform(after);
}

// The guest of the record before is kept in `turns`, with a turn in which nothing is left to run. What follows from its
// end is done before permits are taken again: it may run users' code. (Aftermath are large to make, and as a rule there
// are none: a guest has some of its own.)
bool ThreadDriver::run_here(TaskRef& record, Time now, HereTurns& turns) {
  record->submitted_at = now;
  std::unique_ptr<Runner> guest(static_cast<Runner*>(std::exchange(turns.open, nullptr)));
  std::optional<Aftermath> left;  // The guest's, when that is given back.
  {
    const OutsideBody outside(nullptr);
    MutexLock lock(mutex_);
    const bool others_came = !inbox_.looks_empty();
    if (others_came) take_in_all(now);
    if (guest) {
      end_guest(*guest, now);
    } else {
      guest = take_guest();
    }
    if (scheduler_.has_actions()) {
      follow_up(guest->after, now);
      lock.unlock();
      perform(guest->after);
      lock.lock();
    }
    const bool taken = scheduler_.take_here(*record, *guest->turn, now);
    // What else follows from a record of its own can wait for end_here(): such a record is quick. Nobody who submits
    // counts on this thread, for it does not change attended_.
    if (!taken || others_came || scheduler_.has_actions() || progress_waiters_ != 0) follow_up(guest->after, now);
    if (!taken) {
      left.emplace(std::exchange(guest->after, Aftermath()));
      guests_.push_back(std::move(guest));
    }
  }
  perform(left ? *left : guest->after);
  if (left) return false;
  turns.last = std::move(record);
  if (listener_) tell(TaskEvent::Kind::kSubmitted, *turns.last, now);
  turns.note_end(run_guest(*guest, now));  // NOLINT(bugprone-use-after-move): if it was moved, it returned above.
  turns.open = guest.release();
  if (turns.last->has_begun()) return true;
  turns.end();
  record = std::move(turns.last);
  return false;
}

void ThreadDriver::end_here(HereTurns& turns) {
  std::unique_ptr<Runner> guest(static_cast<Runner*>(std::exchange(turns.open, nullptr)));
  Aftermath after;
  {
    const OutsideBody outside(nullptr);
    MutexLock lock(mutex_);
    if (!inbox_.looks_empty()) take_in_all(turns.last_end());
    end_guest(*guest, turns.last_end());
    guests_.push_back(std::move(guest));
    follow_up(after, turns.last_end());
  }
  perform(after);
}

std::unique_ptr<ThreadDriver::Runner> ThreadDriver::take_guest() {
  if (guests_.empty()) {
    auto guest = std::make_unique<Runner>(*this);
    guest->is_guest = true;
    return guest;
  }
  std::unique_ptr<Runner> guest = std::move(guests_.back());
  guests_.pop_back();
  guest->called.store(false, std::memory_order_relaxed);
  return guest;
}

// Gives the time at its end.
Time ThreadDriver::run_guest(Runner& guest, Time now) {
  Runner* const outer = std::exchange(current_runner_, &guest);
  const Time end = run_turn(guest, now);
  current_runner_ = outer;
  return end;
}

void ThreadDriver::end_guest(Runner& guest, Time now) {
  if (guest.turn->out) scheduler_.finish(*guest.turn, now);
  if (guest.in_turn) leave_turn(guest);
  release_slot(guest, now);
}

}  // namespace cohort::internal
