// Part of ThreadDriver: the watcher, which fires timers and looks for blocked bodies.

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
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

Time ThreadDriver::look_time() const { return watching_ ? look_at_ : Time::max(); }

bool ThreadDriver::needs_watching() const { return scheduler_.idle_workers() == 0 || batches_ != 0 || unstarted_ != 0; }

void ThreadDriver::watch() {
  is_watcher_ = true;
  driver_of_thread_ = this;
  pthread_setname_np(pthread_self(), "cohort-watch");
  for (;;) {
    Chores chores;
    bool look_now = false;
    {
      MutexLock lock(mutex_);
      watcher_sleeps_until_ = Time::min();
      if (stopping_) return;
      const Time now = clock_.now();
      const Time timer = scheduler_.next_timer().value_or(Time::max());
      const Time look = look_time();
      const Time next = std::min(timer, look);
      if (timer <= now) {
        scheduler_.tick(now);
        follow_up(chores, now);
      } else if (look <= now) {
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
    perform(chores);
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
      if (!runner->in_body.load(std::memory_order_relaxed)) continue;
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
    perform(chores);
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
  perform(chores);
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
