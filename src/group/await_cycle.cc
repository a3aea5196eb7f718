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
  Search(const TaskRecord& awaiter, Wait wait) : awaiter_(awaiter) {
    add_all(wait);
    for (std::size_t i = 0; i < reached_.size() && reached_.size() <= kMost; ++i) add_all(wait_of(*reached_[i]));
    if (reached_.size() > kMost) return;
    gave_up_ = false;
    bool more = true;
    while (more) {
      more = false;
      // From the far end: then a chain of any length takes one pass.
      std::for_each(reached_.rbegin(), reached_.rend(), [&](const TaskRecord* record) {
        bool& able = can_end_[record];
        if (able || record == &awaiter_ || !satisfiable(wait_of(*record))) return;
        able = more = true;
      });
    }
  }

  [[nodiscard]] bool gave_up() const { return gave_up_; }

  [[nodiscard]] bool satisfiable(Wait wait) const {
    const auto able = [&](const TaskRef& each) { return each->is_done() || can_end(*each); };
    return wait.need == 0 || static_cast<std::size_t>(std::ranges::count_if(wait.records, able)) >= wait.need;
  }

  [[nodiscard]] const TaskRecord* stuck_one_of(Wait wait) const {
    const auto stuck =
        std::ranges::find_if(wait.records, [&](const TaskRef& each) { return !each->is_done() && !can_end(*each); });
    return stuck == wait.records.end() ? nullptr : stuck->get();
  }

  [[nodiscard]] std::size_t size() const { return reached_.size(); }

 private:
  static constexpr std::size_t kMost = 100'000;

  void add_all(Wait wait) {
    for (const TaskRef& each : wait.records) {
      if (each->is_done() || each->home != awaiter_.home) continue;
      if (can_end_.try_emplace(each.get(), false).second) reached_.push_back(each.get());
    }
  }

  [[nodiscard]] bool can_end(const TaskRecord& record) const {
    const auto known = can_end_.find(&record);
    return known == can_end_.end() || known->second;
  }

  const TaskRecord& awaiter_;
  std::vector<const TaskRecord*> reached_;
  std::unordered_map<const TaskRecord*, bool> can_end_;
  bool gave_up_ = true;
};

}  // namespace

std::vector<const TaskRecord*> find_await_cycle(const TaskRecord& awaiter, const AwaitState& state) {
  // Nearly always the awaited tasks wait for nothing themselves, and there is nothing to search.
  const auto plain = [&](const TaskRef& each) {
    return each->home != awaiter.home || (each.get() != &awaiter && wait_of(*each).need == 0);
  };
  if (std::ranges::all_of(state.records(), plain)) return {};

  const Wait wait{state.records(), state.need()};
  const Search search(awaiter, wait);
  if (search.gave_up() || search.satisfiable(wait)) return {};
  std::vector<const TaskRecord*> path;
  const TaskRecord* next = search.stuck_one_of(wait);
  while (next != nullptr && path.size() < search.size()) {
    path.push_back(next);
    if (next == &awaiter) break;
    next = search.stuck_one_of(wait_of(*next));
  }
  return path;
}

}  // namespace cohort::internal
