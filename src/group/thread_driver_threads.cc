// Part of ThreadDriver: threads, slots and turns; who rests, who is woken up, who leaves.

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "group/thread_driver.h"

namespace cohort::internal {
namespace {

constexpr int kTriesForLock = 50;
constexpr Duration kShortTurn = std::chrono::microseconds(8);
constexpr Duration kSpin = std::chrono::microseconds(20);
constexpr Duration kSurplusStays = std::chrono::milliseconds(300);

}  // namespace

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
  runners_.push_back(std::make_unique<Runner>(*this));
  ++live_threads_;
  runners_.back()->ended = false;
  return *runners_.back();
}

void ThreadDriver::start(Runner& runner) {
  const OutsideBody outside(nullptr);
  std::thread thread;
  try {
    thread = std::thread([this, &runner] { work(runner); });
  } catch (...) {
    Aftermath after;
    MutexLock lock(mutex_);
    --starting_;
    --live_threads_;
    runner.ended = true;
    runner.has_slot = runner.starts = false;
    if (std::exchange(runner.for_chores, false)) --chore_threads_;
    if (std::exchange(runner.arrives, false)) {
      ++unstarted_;  // The minder tries again.
      --arriving_;
    }
    follow_up(after, clock_.now());
    lock.unlock();
    perform(after);
    return;
  }
  MutexLock lock(mutex_);
  --starting_;
  runner.starts = false;
  if (runner.ended) {
    std::swap(thread, last_ended_);  // It was quicker than this one.
  } else {
    runner.thread = std::exchange(thread, std::thread());
  }
  if (progress_waiters_ != 0) progress_.notify_all();
  lock.unlock();
  if (thread.joinable()) thread.join();
}

void ThreadDriver::work(Runner& runner) {
  current_runner_ = &runner;
  driver_of_thread_ = this;
  pthread_setname_np(pthread_self(), "cohort-worker");
  {
    MutexLock lock(mutex_);
    runner.thread_id = static_cast<std::int32_t>(syscall(SYS_gettid));
  }
  while (next_turn(runner)) run_turn(runner, clock_.now());
  // Thread-local objects of users that go later are no bodies of this driver's.
  current_runner_ = nullptr;

  std::thread before;
  {
    MutexLock lock(mutex_);
    if (!runner.starts) before = std::exchange(last_ended_, std::move(runner.thread));
    runner.ended = true;
    --live_threads_;
    if (progress_waiters_ != 0) progress_.notify_all();
  }
  if (before.joinable()) before.join();
}

// Ends the turn that has been run, and takes the next, waiting for it if need be. False when the thread is to end.
bool ThreadDriver::next_turn(Runner& runner) {
  for (;;) {
    Aftermath after;
    Next next = Next::kRest;
    {
      MutexLock lock(mutex_, kTriesForLock);
      const Time now = clock_.now();
      const bool was_blocked = runner.blocked;
      const bool arrived = std::exchange(runner.arrives, false);
      const bool was_short = runner.in_short_turn;
      if (arrived) --arriving_;
      if (was_blocked && runner.turn->out && !runner.turn->of_chores && now - runner.turn->taken_at < kLongTask) {
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
      if (runner.for_chores) {
        next = take_chores(runner, now);
      } else if (runner.has_slot) {
        // What cannot run in the next turn is better left in the inbox, where it slows its submitters down; but not for
        // long.
        if (!was_short && !has_many_refusals()) take_in(now, kTakenInAtOnce - Turn::kMaxTasks);
        next = take_turn(runner, now, after);
      }
      follow_up(after, now);
    }
    if (!after.empty()) {
      runner.enter_body();  // It may be users' code.
      perform(after);
      runner.leave_body();
    }
    if (next == Next::kRun) return true;
    if (next == Next::kRest && !rest(runner)) return false;
  }
}

ThreadDriver::Next ThreadDriver::take_chores(Runner& runner, Time now) {
  const bool alone = std::exchange(runner.chore_turns, scheduler_.chore_turns() + 1) == scheduler_.chore_turns();
  const bool is_needed = alone || scheduler_.chores_wait_since() <= now - kChoresWaitFor;
  if (is_needed && scheduler_.take_chores(*runner.turn, now)) {
    enter_turn(runner, now);
    return Next::kRun;
  }
  runner.for_chores = false;
  --chore_threads_;
  return Next::kRest;
}

ThreadDriver::Next ThreadDriver::take_turn(Runner& runner, Time now, Aftermath& after) {
  const auto ready = static_cast<std::uint32_t>(std::min<std::size_t>(scheduler_.ready_groups(), Turn::kMaxTasks / 2));
  Arrivals arrivals;
  const std::uint32_t most = has_many_refusals() ? 0 : Turn::kMaxTasks - ready;
  if (!scheduler_.take(*runner.turn, fetch(arrivals, most), now)) {
    if (scheduler_.has_actions()) {
      // What is to be done comes before rest: nobody may count on a thread that is busy with it.
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
  if (!runner.turn->of_chores && runner.turn->tasks[0]->blocks_thread) return hand_over(runner, now, after);
  enter_turn(runner, now);
  runner.in_batch = runner.turn->count > 1;
  if (runner.in_batch) ++batches_;
  runner.in_short_turn = runner.in_batch && runner.turn->expected < kShortTurn;
  if (runner.in_short_turn) ++short_turns_;
  if (!runner.turn->of_chores && runner.turn->segments[0].group->tends_to_block) note_blocked(runner, now);
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

// The turn belongs to a task whose thread waits for it: that thread gets the turn. It gets the slot too, unless it is a
// caller's: nobody would stand in for that if it blocks.
ThreadDriver::Next ThreadDriver::hand_over(Runner& from, Time now, Aftermath& after) {
  Runner& to = *waiting_.at(from.turn->tasks[0]);
  std::swap(from.turn, to.turn);
  if (to.turn->goes_on) {
    to.turn->begin(now);
  } else {
    to.turn->tasks[0]->blocks_thread = false;  // From here on it is a task like any.
    waiting_.erase(to.turn->tasks[0]);
  }
  enter_turn(to, now);
  call(to, after);
  if (to.is_guest) return Next::kLookAgain;
  from.has_slot = false;
  to.has_slot = true;
  return Next::kRest;
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
  Aftermath after;
  MutexLock lock(mutex_);
  const auto called = [&] { return runner.called.load(std::memory_order_relaxed); };
  if (spun) {
    runner.spins = false;
    --spinning_;
  }
  if (!called() && !stopping_ && !inbox_.looks_empty() && scheduler_.idle_workers() != 0 && is_worth_waking()) {
    std::erase(resting_, &runner);
    scheduler_.remove_idle_worker();
    runner.has_slot = true;
    return true;
  }
  follow_up(after, clock_.now());
  // Nobody may count on it while it is busy with users' code.
  const bool leaves = spun && !called() && !after.actions.empty();
  if (leaves) std::erase(resting_, &runner);
  lock.unlock();
  perform(after);
  lock.lock();
  if (leaves || !spun) resting_.push_back(&runner);
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

}  // namespace cohort::internal
