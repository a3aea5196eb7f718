#include "group/await_cycle.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace cohort::internal {
namespace {

// What a task waits for: `need` out of `records`. Nothing for one that can go on by itself.
struct Wait {
  std::span<const TaskRef> records;
  std::size_t need = 0;
};

Wait wait_of(const TaskRecord& record) {
  const TaskExtras* extras = record.extras_if_any();
  if (extras == nullptr) return {};
  if (record.phase == Phase::kDependent) return {std::span(&extras->predecessor, 1), 1};
  if (extras->awaiting == nullptr || extras->wake.armed()) return {};  // A timed wait ends by itself.
  return {extras->awaiting->records(), extras->awaiting->need()};
}

// The tasks that can be reached, and which of them can end although `awaiter` does not: those that wait for nothing,
// then those with enough of these among what they wait for, and so on until there are no more.
class Search {
 public:
  Search(const TaskRecord& awaiter, const TaskRef& record) : awaiter_(awaiter) {
    add(record);
    for (std::size_t i = 0; i < reached_.size() && reached_.size() <= kMost; ++i) {
      for (const TaskRef& each : wait_of(*reached_[i]).records) add(each);
    }
    if (reached_.size() > kMost) return;
    gave_up_ = false;
    bool more = true;
    while (more) {
      more = false;
      // From the far end: then a chain of any length takes one pass.
      std::for_each(reached_.rbegin(), reached_.rend(), [&](const TaskRecord* each) {
        bool& able = can_end_[each];
        if (able || each == &awaiter_ || !satisfiable(wait_of(*each))) return;
        able = more = true;
      });
    }
  }

  [[nodiscard]] bool gave_up() const { return gave_up_; }
  [[nodiscard]] bool is_stuck(const TaskRef& record) const {
    if (record->is_done()) return false;
    const auto known = can_end_.find(record.get());
    return known != can_end_.end() && !known->second;
  }
  [[nodiscard]] std::size_t size() const { return reached_.size(); }

 private:
  static constexpr std::size_t kMost = 10'000;

  void add(const TaskRef& each) {
    if (each->is_done() || each->home != awaiter_.home) return;
    if (can_end_.try_emplace(each.get(), false).second) reached_.push_back(each.get());
  }

  [[nodiscard]] bool satisfiable(Wait wait) const {
    const auto able = [&](const TaskRef& each) { return !is_stuck(each); };
    return wait.need == 0 || static_cast<std::size_t>(std::ranges::count_if(wait.records, able)) >= wait.need;
  }

  const TaskRecord& awaiter_;
  std::vector<const TaskRecord*> reached_;
  std::unordered_map<const TaskRecord*, bool> can_end_;
  bool gave_up_ = true;
};

}  // namespace

std::vector<TaskRef> find_await_cycle(const TaskRecord& awaiter, const TaskRef& record) {
  // Nearly always the awaited task waits for nothing itself, and there is nothing to search.
  if (record->home != awaiter.home || (record.get() != &awaiter && wait_of(*record).need == 0)) return {};
  const Search search(awaiter, record);
  if (search.gave_up() || !search.is_stuck(record)) return {};
  std::vector<TaskRef> path = {record};
  while (path.back().get() != &awaiter && path.size() < search.size()) {
    const std::span<const TaskRef> records = wait_of(*path.back()).records;
    const auto next = std::ranges::find_if(records, [&](const TaskRef& each) { return search.is_stuck(each); });
    if (next == records.end()) break;
    path.push_back(*next);
  }
  return path;
}

Error cycle_error(const TaskRecord& awaiter, const std::vector<TaskRef>& cycle) {
  std::string text = "a cycle of awaits: task '" + awaiter.task_id() + "' of group '" + awaiter.group_key() + "'";
  for (const TaskRef& step : cycle) text += " awaits '" + step->task_id() + "' of '" + step->group_key() + "'";
  return {ErrorCode::kConflict, std::move(text), {}};
}

}  // namespace cohort::internal
