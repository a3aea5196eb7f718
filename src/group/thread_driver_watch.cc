// Part of ThreadDriver: the watcher, which fires timers, and the minder, which looks for blocked bodies.

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "group/thread_driver.h"

namespace cohort::internal {
// What the kernel says: neither running nor waiting for a processor. One that is merely preempted is not blocked.
bool is_blocked_in_kernel(std::int32_t thread_id) {
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

void ThreadDriver::watch() {
  driver_of_thread_ = this;
  pthread_setname_np(pthread_self(), "cohort-watch");
  for (;;) {
    Aftermath after;
    bool more = false;
    {
      MutexLock lock(mutex_);
      watcher_sleeps_until_ = Time::min();
      if (stopping_) return;
      const Time now = clock_.now();
      const Time next = scheduler_.next_timer().value_or(Time::max());
      if (next <= now) {
        scheduler_.tick(now);
        follow_up(after, now);
        more = scheduler_.next_timer().value_or(Time::max()) <= now;
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
    perform(after);
    if (more) std::this_thread::sleep_for(kBreath);  // Whoever waits for the lock gets it.
  }
}

bool ThreadDriver::needs_minding() const {
  return scheduler_.idle_workers() == 0 || batches_ != 0 || unstarted_ != 0 ||
         scheduler_.chores_wait_since() != Time::max();
}

void ThreadDriver::mind() {
  driver_of_thread_ = this;
  pthread_setname_np(pthread_self(), "cohort-mind");
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      const Time now = clock_.now();
      if (!minding_) {
        minder_sleeps_ = true;
        mind_wake_.wait(mutex_);
        minder_sleeps_ = false;
        continue;
      }
      if (now < look_at_) {
        mind_wake_.wait_until(mutex_, saturating_add(std::chrono::steady_clock::now(), look_at_ - now));
        continue;
      }
    }
    look_around();
  }
}

void ThreadDriver::look_around() {
  struct Suspect {
    Runner* runner;
    std::uint64_t turns;
    std::uint32_t begun;
    std::int32_t thread_id;
    std::uint32_t left_body;
    bool blocked = false;
  };
  std::vector<Suspect> suspects;
  {
    Aftermath after;
    MutexLock lock(mutex_);
    const Time now = clock_.now();
    take_in(now, has_many_refusals() ? 1 : kTakenInAtOnce);
    for (const auto& runner : runners_) {
      if (!runner->in_turn || (!runner->has_slot && !runner->for_chores)) continue;
      if ((runner->blocked && !runner->in_batch) || !runner->in_body.load(std::memory_order_relaxed)) continue;
      Turn& turn = *runner->turn;
      const Time started(Duration(turn.current_started.load(std::memory_order_relaxed)));
      const bool holds_others = turn.begun() < turn.count || turn.begun() > turn.ended_tasks + 1;
      if (now - started < kLongTask && (!holds_others || now - turn.taken_at < 2 * kLongTask)) continue;
      scheduler_.give_back(turn, now);
      leave_batch(*runner);
      if (runner->blocked || runner->for_chores || now < runner->probe_at) continue;
      suspects.push_back({runner.get(), runner->turns, turn.begun(), runner->thread_id,
                          runner->left_body.load(std::memory_order_relaxed)});
    }
    follow_up(after, now);
    lock.unlock();
    perform(after);
  }
  // A system call each: not under the lock.
  for (Suspect& each : suspects) {
    try {
      each.blocked = blocked_probe_(each.thread_id);
    } catch (...) {
      // Who cannot tell says no.
    }
  }
  Aftermath after;
  MutexLock lock(mutex_);
  const Time now = clock_.now();
  for (const Suspect& each : suspects) {
    Runner& runner = *each.runner;
    if (!runner.in_turn || runner.turns != each.turns || runner.turn->begun() != each.begun) continue;
    // It has been in the executor since: what the probe saw may have been a wait for the lock.
    if (runner.left_body.load(std::memory_order_relaxed) != each.left_body) continue;
    if (each.blocked) {
      if (each.begun != 0 && !runner.turn->of_chores) {
        runner.turn->tasks[each.begun - 1]->group->tends_to_block = true;
      }
      note_blocked(runner, now);
    } else {
      runner.probe_after = std::min<Duration>(2 * runner.probe_after, std::chrono::milliseconds(50));
      runner.probe_at = now + runner.probe_after;
    }
  }
  const bool retries = unstarted_ != 0;
  for (; unstarted_ > 0; --unstarted_) wake_one(after);
  help_with_chores(now, after);
  minding_ = needs_minding() || retries;
  look_at_ = now + kLookEvery;
  follow_up(after, now);
  lock.unlock();
  perform(after);
}

// One more thread at a time, and the more there are the later.
void ThreadDriver::help_with_chores(Time now, Aftermath& after) {
  constexpr std::uint32_t kMostDoublings = 5;
  const Duration patience = kChoresWaitFor * (1 << std::min(chore_threads_, kMostDoublings));
  if (scheduler_.chores_wait_since() > now - patience || chore_threads_ >= max_threads_) return;
  Runner* runner = nullptr;
  if (resting_.empty()) {
    runner = &spare_runner();
    runner->starts = true;
    ++starting_;
    after.start.push_back(runner);
  } else {
    runner = resting_.back();
    resting_.pop_back();
    call(*runner, after);
  }
  runner->for_chores = true;
  runner->chore_turns = scheduler_.chore_turns();
  ++chore_threads_;
}

}  // namespace cohort::internal
