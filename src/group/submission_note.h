#pragma once

// How a task comes to the scheduler: from whom, and what is to happen if its queue is full.

#include <cstdint>

#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Who submits: nobody's task, a task of some other group, or one of the same group.
enum class Origin : std::uint8_t { kOutside, kOtherGroup, kSameGroup };
/// What is to happen if the queue is full: what the group's policy says, which may be that the submitter's thread,
/// where it waits, runs the task itself; or in any case to stand at the door.
/// Submitters that must not wait, because a task or a worker would wait with them, are refused instead.
enum class FullQueue : std::uint8_t { kAsGroupSays, kCallerWaits, kBlock, kNeverWait };
/// What TaskRecord::note keeps of both, on its way to the queue.
[[nodiscard]] inline std::uint8_t note_of(Origin origin, FullQueue full) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(origin) | (static_cast<unsigned>(full) << 2));
}
[[nodiscard]] inline Origin origin_of(std::uint8_t note) { return static_cast<Origin>(note & 3); }
[[nodiscard]] inline FullQueue full_of(std::uint8_t note) { return static_cast<FullQueue>(note >> 2); }
/// Whether the task may stand at the door of a full queue: the submitter was no task and no worker.
[[nodiscard]] inline bool may_wait(std::uint8_t note) {
  return origin_of(note) == Origin::kOutside && full_of(note) != FullQueue::kNeverWait;
}

struct Arrival {
  TaskRecord* record;  ///< Its submitted_at is set, and it comes with a reference.
  Origin origin;
  FullQueue full;
};

}  // namespace cohort::internal
