#pragma once

#include <vector>

#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Whether `awaiter` would wait for ever if it awaited `state`, because that cannot be satisfied before `awaiter` itself
/// has ended. Then the way back to it, as far as one can be named; else nothing.
///
/// A wait for one of several is a cycle only if all of them lead back. Tasks of other executors count as able to end.
/// A search of more than 100,000 tasks is given up as "no cycle".
std::vector<const TaskRecord*> find_await_cycle(const TaskRecord& awaiter, const AwaitState& state);

/// Whether `waiter`, parked or following another task, cannot end before `target` has.
bool depends_on(const TaskRecord& waiter, const TaskRecord& target);

}  // namespace cohort::internal
