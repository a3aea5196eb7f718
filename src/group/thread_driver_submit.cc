// How tasks come to the executor: into the ring, or to the door of a full queue.

#include <algorithm>
#include <array>
#include <utility>

#include "group/thread_driver.h"

namespace cohort::internal {
namespace {

constexpr int kTriesForRoom = 1000;
constexpr Duration kFewMicroseconds = std::chrono::microseconds(20);

}  // namespace

TaskRecord* ThreadDriver::own_task() const {
  TaskRecord* task = current_task();
  return task != nullptr && task->home == &home_ ? task : nullptr;
}

Origin ThreadDriver::origin_of(const TaskRecord& record) const {
  const TaskRecord* submitter = own_task();
  if (submitter == nullptr) return Origin::kOutside;
  return submitter->label().key() == record.label().key() ? Origin::kSameGroup : Origin::kOtherGroup;
}

// A task, a chore or a listener on a worker must not wait for a place: what it waits for may wait for its thread, or
// for the permits of the task.
bool ThreadDriver::may_wait_at_door() {
  return current_runner_ == nullptr && driver_of_thread_ == nullptr && current_task() == nullptr;
}

FullQueue ThreadDriver::full_queue(bool paced) {
  if (!may_wait_at_door()) return FullQueue::kNeverWait;
  return paced ? FullQueue::kBlock : FullQueue::kAsGroupSays;
}

void ThreadDriver::submit(TaskRecord& record, bool paced) {
  record.submitted_at = clock_.now();
  if (listener_) tell(TaskEvent::Kind::kSubmitted, record, record.submitted_at);
  const Origin origin = origin_of(record);
  if (policy_.has_resolver()) be_resolved(record);
  if (!paced && keys_that_block_.may_have(record.label().key_hash()) && may_wait_at_door()) {
    return submit_or_wait(record);
  }
  record.note = note_of(origin, full_queue(paced));
  leave_in_inbox(std::array{&record});
}

// With one look at the clock and one at who attends. Not where one of them may have to block the submitter, which the
// resolver may say only when it is asked.
void ThreadDriver::submit_all(std::span<TaskRecord* const> records, bool paced) {
  const auto may_block = [&](const TaskRecord* record) {
    return policy_.has_resolver() || keys_that_block_.may_have(record->label().key_hash());
  };
  if (!paced && may_wait_at_door() && std::ranges::any_of(records, may_block)) {
    for (TaskRecord* record : records) submit(*record, paced);
    return;
  }
  const Time now = clock_.now();
  for (TaskRecord* record : records) {
    record->submitted_at = now;
    if (listener_) tell(TaskEvent::Kind::kSubmitted, *record, now);
    record->note = note_of(origin_of(*record), full_queue(paced));
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
  std::unique_ptr<Runner> guest;
  with_scheduler([&](Scheduler<>& scheduler, Time now) COHORT_REQUIRES(mutex_) {
    scheduler.submit(record, Origin::kOutside, FullQueue::kCallerWaits, now);
    if (record.phase == Phase::kAtDoor) guest = stand_at_door(record);
  });
  if (guest) wait_at_door(record, std::move(guest));
}

std::unique_ptr<ThreadDriver::Runner> ThreadDriver::stand_at_door(const TaskRecord& record) {
  std::unique_ptr<Runner> guest = take_guest();
  waiting_.emplace(&record, guest.get());
  return guest;
}

// Returns when the task stands there no more. If this thread is to run it, it has.
void ThreadDriver::wait_at_door(const TaskRecord& record, std::unique_ptr<Runner> guest) {
  {
    MutexLock lock(mutex_);
    while (record.phase == Phase::kAtDoor && !guest->turn->out) {
      guest->asleep = true;
      guest->wake.wait(mutex_);
    }
    guest->asleep = false;
    guest->called.store(false, std::memory_order_relaxed);
    if (!guest->turn->out) {
      // It may have been let in by an event whose driver has not come to that yet.
      if (const auto own = waiting_.find(&record); own != waiting_.end() && own->second == guest.get()) {
        waiting_.erase(own);
      }
      guests_.push_back(std::move(guest));
      return;
    }
  }
  run_on_guest(std::move(guest));
}

// The first who submits to a group asks for its limits, before he has any lock.
void ThreadDriver::be_resolved(const TaskRecord& record) {
  const TaskLabel& label = record.label();
  if (keys_seen_.may_have(label.key_hash()) || label.key().empty() || label.key().size() > TaskLabel::kMaxKeyBytes)
    return;
  if (!may_wait_at_door()) return;  // It waits for no resolver either.
  give_answer(label.key());
}

// For a submitter that has a ticket and finds no place in the ring. While another thread is about to take tasks out,
// the submitter first gives it a moment: the less a producer is ahead of the workers, the more of its tasks are still
// in a cache. Otherwise the submitter takes tasks out itself. It never waits for the lock, and starts no threads (which
// needs the lock): the holder of the lock may be waiting for this ticket to be used. So the minder does what follows.
// While workers have not caught up with the tasks that were refused, a thread that is not the executor's also waits,
// but not for long: it may hold what they need.
template <class HasRoom>
void ThreadDriver::make_room(HasRoom has_room) {
  constexpr int kMostWaits = 50;
  if (has_room()) return;
  const OutsideBody outside(&clock_);
  int waited = 0;
  for (int tries = 0; !has_room(); ++tries) {
    if (tries < kTriesForRoom && attended_.load(std::memory_order_relaxed)) {
      pause_processor();
    } else if (mutex_.try_lock()) {
      bool notify_minder = false;
      const bool many = has_many_refusals() && driver_of_thread_ != this;
      const bool waits = many && ++waited < kMostWaits;
      if (!waits) {
        const Time now = clock_.now();
        take_in(now, many ? 1 : kTakenInAtOnce);
        notify_minder = scheduler_.has_actions() && begin_minding(now);
      }
      mutex_.unlock();
      if (notify_minder) mind_wake_.notify_one();
      if (waits) std::this_thread::sleep_for(kFewMicroseconds);
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace cohort::internal
