#pragma once

// Events of the scheduler that take more than one step: they keep here how far they have come.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"
#include "group/group.h"

namespace cohort::internal {

/// Work of a group that is being ended: all that it has now, or what came with a lease. Bounded steps, because there
/// may be hundreds of thousands; meanwhile the group starts nothing, so what is meant is what was there when it began.
struct EndJob {
  Group* group = nullptr;             ///< Null: there is nothing to end.
  const GroupLease* lease = nullptr;  ///< Null: everything.
  Why why = Why::kGroupShutDown;
  std::uint32_t last_sequence = 0;  ///< What comes later is not meant.
  std::size_t list = 0;             ///< Where it is: in which list,
  bool in_list = false;             ///< and unless it has not begun with that,
  TaskRecord* next = nullptr;       ///< at which record.
  EndJob* other = nullptr;          ///< Of the same group.

  [[nodiscard]] bool means(const TaskRecord& record) const {
    return static_cast<std::int32_t>(record.sequence - last_sequence) <= 0 &&
           (lease == nullptr || (record.leased && record.label().lease() == lease));
  }
};

/// The end of everything, group by group.
struct EndAll {
  std::size_t next_place = 0;
  EndJob job;
};

/// An await on its way: how far the scheduler has come with what is awaited.
struct Awaiting {
  explicit Awaiting(AwaitState& what, bool is_timed) : state(what), timed(is_timed) {}
  AwaitState& state;
  bool timed;
  std::size_t checked = 0;      ///< So many of the awaited have been looked at for a cycle,
  std::size_t stuck = 0;        ///< so many of them cannot end before the one who waits,
  std::vector<TaskRef> cycle;   ///< as this shows;
  bool is_far = false;          ///< Other executors have to do with it, see FarWaits.
  std::size_t noted = kAll;     ///< So many have been put into FarWaits, where they have to be.
  std::size_t marked = 0;       ///< And so many have been marked as awaited,
  TaskRecord* chain = nullptr;  ///< the last of them with what it follows only as far as here.
  std::vector<TaskRef> held;    ///< Keeps that alive between two portions.

  [[nodiscard]] bool is_through() const {
    const std::size_t all = state.records().size();
    return checked == all && marked == all && chain == nullptr && noted >= all;
  }
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);
  enum class Verdict : std::uint8_t { kMay, kCycle, kOutOfTime };
};

}  // namespace cohort::internal
