#include "group/await_cycle.h"

#include <string>
#include <utility>

#include "group/await_search.h"

namespace cohort::internal {

AwaitEdge await_edge_of(const TaskRecord& record) {
  const TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return {};
  if (record.phase == Phase::kDependent) return {std::span(&extras->predecessor, 1), 1};
  if (extras->awaiting == nullptr || extras->wake.armed()) return {};  // A timed wait ends by itself.
  return {extras->awaiting->records(), extras->awaiting->need()};
}

std::vector<TaskRef> find_await_cycle(const TaskRecord& awaiter, const TaskRef& record, std::size_t& steps) {
  const auto edge_of = [&](const TaskRecord& each) {
    return each.home == awaiter.home ? await_edge_of(each) : AwaitEdge();
  };
  // Nearly always the awaited task waits for nothing itself, and there is nothing to search.
  if (record.get() != &awaiter && edge_of(*record).need == 0) return {};
  const AwaitEdge first{std::span(&record, 1), 1};
  const AwaitSearch search(awaiter, first, edge_of);
  steps += search.steps();
  return search.cycle(first);
}

Error cycle_error(const TaskRecord& awaiter, const std::vector<TaskRef>& cycle) {
  std::string text = "a cycle of awaits: task '" + awaiter.task_id() + "' of group '" + awaiter.group_key() + "'";
  for (const TaskRef& step : cycle) text += " awaits '" + step->task_id() + "' of '" + step->group_key() + "'";
  return {ErrorCode::kConflict, std::move(text), {}};
}

}  // namespace cohort::internal
