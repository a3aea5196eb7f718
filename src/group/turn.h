#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "cohort/base/clock.h"
#include "cohort/base/internal/intrusive_list.h"
#include "cohort/task/internal/task_record.h"
#include "group/chore.h"
#include "group/group.h"

namespace cohort::internal {

/// What a worker takes at once: some tasks to run one after the other.
///
/// Only one of them runs at a time, so the whole turn needs one permit of layer 1, and the tasks of one group in it
/// (a segment) one permit of layers 2 and 3. The rest that has not begun can be taken back at any time:
///
/// 1. `cursor_` holds the next entry and the end in one word; begin() moves the next, take_back() the end, both by
///    compare-and-swap. So an entry is either begun by the worker or taken back by the scheduler, never both.
/// 2. So a task in a turn that is to end without having run is taken back first, and then waits like any other.
///
/// What the tasks of a segment used can be measured by the worker as it goes, which spares the scheduler to look at
/// each of them again under its lock.
///
/// Thread-safety: begin() and measure() are the worker's; all else is the scheduler's, under its lock.
struct Turn : ListLinks<Turn> {
  static constexpr std::uint32_t kMaxTasks = 64;
  static constexpr Duration kLength = std::chrono::microseconds(20);

  struct Segment {
    Group* group = nullptr;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool concurrency = false;  ///< Holds a permit of layer 3.
    bool in_flight = false;    ///< Holds a place of layer 2.
    bool plain = false;        ///< None of its tasks has a time limit, and its group was plain, see Group.
    bool split = false;        ///< Some of its tasks have been ended before the others.
    double each_ns = 0;        ///< Charged for each task when it was taken, before the weight.
    double charged_ns = 0;     ///< Charged for all of it so far.
    // Added up by a worker that measures.
    std::uint32_t succeeded = 0;
    TaskStatus last_status = TaskStatus::kSuccess;
    float queued_ns = 0;
    float used_ns = 0;
    float outside_ns = 0;  ///< In which its tasks waited for their executor's own lock: no time of theirs.
  };

  /// What ended tasks took.
  struct Used {
    Duration time{0};
    std::uint32_t tasks = 0;
  };

  /// The next task to run, begun; null when there is none left.
  TaskRecord* begin(Time now) {
    for (;;) {
      std::uint64_t cursor = cursor_.load(std::memory_order_acquire);
      const auto next = static_cast<std::uint32_t>(cursor);
      if (next == static_cast<std::uint32_t>(cursor >> 32)) return nullptr;
      if (!cursor_.compare_exchange_weak(cursor, cursor + 1, std::memory_order_acq_rel)) continue;
      TaskRecord* record = tasks[next];
      if (goes_on) return record;
      record->begin(std::max(now, record->submitted_at));
      current_started.store(now.time_since_epoch().count(), std::memory_order_relaxed);
      return record;
    }
  }

  /// The same for a turn of chores.
  const Chore* begin_chore(Time now) {
    for (;;) {
      std::uint64_t cursor = cursor_.load(std::memory_order_acquire);
      const auto next = static_cast<std::uint32_t>(cursor);
      if (next == static_cast<std::uint32_t>(cursor >> 32)) return nullptr;
      if (!cursor_.compare_exchange_weak(cursor, cursor + 1, std::memory_order_acq_rel)) continue;
      current_started.store(now.time_since_epoch().count(), std::memory_order_relaxed);
      return &chores[next];
    }
  }

  /// For a worker that measures: its current entry, which began at its record's start, has ended.
  void measure(const TaskRecord& record, TaskStatus status, Time ended) {
    Segment& segment = segments[segment_of[static_cast<std::uint32_t>(cursor_.load(std::memory_order_relaxed)) - 1]];
    if (record.drops_users_code) segment.plain = false;  // To be looked at again when it is dropped.
    segment.last_status = status;
    if (status == TaskStatus::kSuccess) ++segment.succeeded;
    segment.queued_ns += static_cast<float>((record.started_at - record.submitted_at).count());
    segment.used_ns += static_cast<float>((ended - record.started_at).count());
  }
  /// The current entry was in the executor for so long, and not in its body.
  void note_outside(Duration duration) {
    const std::uint32_t entry = static_cast<std::uint32_t>(cursor_.load(std::memory_order_relaxed)) - 1;
    segments[segment_of[entry]].outside_ns += static_cast<float>(duration.count());
  }

  /// How many have been begun.
  [[nodiscard]] std::uint32_t begun() const {
    return static_cast<std::uint32_t>(cursor_.load(std::memory_order_acquire));
  }

  /// The group of an entry that has not ended.
  [[nodiscard]] Group& group_of(std::uint32_t entry) const { return *segments[segment_of[entry]].group; }

  /// Ends the turn after what has begun; returns how many that is.
  std::uint32_t take_back() {
    std::uint64_t cursor = cursor_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t next = cursor & 0xFFFF'FFFFULL;
      if (cursor_.compare_exchange_weak(cursor, next | (next << 32), std::memory_order_acq_rel)) {
        return static_cast<std::uint32_t>(next);
      }
    }
  }

  void reset() {
    count = segment_count = ended_segments = ended_tasks = 0;
    goes_on = global = here = of_chores = false;
    accrued_entry = 0;
    accrued_ns = 0;
    left_body = Time::max();
    entered_body = Time::min();
    cursor_.store(0, std::memory_order_relaxed);
  }
  void publish() { cursor_.store(static_cast<std::uint64_t>(count) << 32, std::memory_order_release); }

  [[nodiscard]] bool empty() const { return count == 0; }
  /// For the entries that are about to be added.
  Segment& add_segment(Group& group) {
    Segment& segment = segments[segment_count++];
    segment = Segment();
    segment.group = &group;
    segment.first = count;
    return segment;
  }

  std::uint32_t count = 0;
  std::uint32_t segment_count = 0;
  std::uint32_t ended_segments = 0;  ///< So many of the first have been ended although the turn goes on,
  std::uint32_t ended_tasks = 0;     ///< with so many tasks, which are not there any more.
  bool goes_on = false;              ///< Its one entry has begun before: a coroutine, or a task that was parked.
  bool global = false;               ///< Holds a permit of layer 1.
  bool here = false;                 ///< The thread that runs it keeps its record, see Scheduler::take_here.
  bool of_chores = false;            ///< Not of tasks: the chores of one group, without permits.
  bool out = false;                  ///< Listed by the scheduler.
  Time taken_at{};
  Duration expected{0};             ///< How long it should take.
  Duration layer1_bound_before{0};  ///< How long layer 1 had been full when it was taken.
  Time left_body = Time::max();     ///< When its worker last came back from user code; max: it is there.
  Time entered_body = Time::min();  ///< When the thread of a parked task went on with it, if it had to be woken first.
  std::uint32_t accrued_entry = 0;  ///< The entry that was last charged while it ran,
  double accrued_ns = 0;            ///< and how much beyond what was expected.
  std::atomic<Time::rep> current_started{0};
  std::array<TaskRecord*, kMaxTasks> tasks{};
  std::array<std::uint8_t, kMaxTasks>
      segment_of{};       ///< By entry. Unlike the rest the worker may read it: it does not change.
  bool measured = false;  ///< Its worker measures, see there. Set once.
  std::array<Segment, kMaxTasks> segments{};
  std::array<Chore, kMaxTasks> chores;

 private:
  std::atomic<std::uint64_t> cursor_{0};
};

/// What turns that are out still hold of a group for tasks that have a result already.
struct EndedInTurns {
  std::uint32_t tasks = 0;
  std::uint32_t running = 0;  // Permits of layer 3 that only such tasks have.
  std::uint32_t own = 0;      // And places in layer 2.
  TaskCounters counters;
};

}  // namespace cohort::internal
