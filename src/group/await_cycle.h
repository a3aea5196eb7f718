#pragma once

#include <vector>

#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Whether `awaiter` would wait for ever if it awaited `state`, because that cannot be satisfied before `awaiter`
/// itself has ended. Then the way back to it, as far as one can be named; else nothing.
///
/// A wait for one of several is a cycle only if all of them lead back, and a timed wait is none. Tasks of other
/// executors count as able to end. A search of more than 100,000 tasks is given up as "no cycle".
std::vector<const TaskRecord*> find_await_cycle(const TaskRecord& awaiter, const AwaitState& state);

}  // namespace cohort::internal
