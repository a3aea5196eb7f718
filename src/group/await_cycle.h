#pragma once

#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"
#include "group/await_search.h"

namespace cohort::internal {

/// What a task of some scheduler waits for, under that one's lock.
[[nodiscard]] AwaitEdge await_edge_of(const TaskRecord& record);

/// Whether `record` cannot end before `awaiter` has ended: because it is that, or waits for tasks that cannot. Then the
/// way from it back to `awaiter`, as far as one can be named; else nothing.
///
/// A wait for one of several is a cycle only if all of them lead back, and a timed wait is none. Tasks of other
/// executors count as able to end, see FarWaits. A search of more than 20,000 steps is given up as "no cycle". Adds
/// what it took to `steps`.
std::vector<TaskRef> find_await_cycle(const TaskRecord& awaiter, const TaskRef& record, std::size_t& steps);

/// "a cycle of awaits: ..."
[[nodiscard]] Error cycle_error(const TaskRecord& awaiter, const std::vector<TaskRef>& cycle);

}  // namespace cohort::internal
