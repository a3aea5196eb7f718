#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// What a task waits for: `need` out of `records`. A need of 0: it can go on by itself.
struct AwaitEdge {
  std::span<const TaskRef> records;
  std::size_t need = 0;
};

/// The tasks that can be reached from some task, and which of them can end although `awaiter` does not: those that wait
/// for nothing, then those with enough of these among what they wait for, and so on until there are no more. What the
/// others wait for, and for how many of it, is what `edge_of(record)` says. A search that takes more than 20,000 steps
/// is given up.
template <class EdgeOf>
class AwaitSearch {
 public:
  AwaitSearch(const TaskRecord& awaiter, AwaitEdge first, EdgeOf edge_of)
      : awaiter_(awaiter), edge_of_(std::move(edge_of)) {
    if (!add(first)) return;
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      if (!add(edge_of_(*reached_[i]))) return;
    }
    const std::size_t steps_of_a_pass = steps_;
    bool more = true;
    while (more) {
      if (steps_ > kMost) return;
      more = false;
      // From the far end: then a chain of any length takes one pass.
      std::for_each(reached_.rbegin(), reached_.rend(), [&](const TaskRecord* each) {
        bool& able = can_end_[each];
        if (able || each == &awaiter_ || !satisfiable(edge_of_(*each))) return;
        able = more = true;
      });
      steps_ += steps_of_a_pass;
    }
    gave_up_ = false;
  }

  /// How much there was to do: an upper bound of the waits that were looked at.
  [[nodiscard]] std::size_t steps() const { return steps_; }

  /// The way from the first task of `edge` that cannot end back to `awaiter`, as far as one can be named; nothing if
  /// enough of them can.
  [[nodiscard]] std::vector<TaskRef> cycle(AwaitEdge edge) const {
    std::vector<TaskRef> path;
    if (gave_up_ || satisfiable(edge)) return path;
    while (path.size() < reached_.size()) {
      const auto next = std::ranges::find_if(edge.records, [this](const TaskRef& each) { return is_stuck(each); });
      if (next == edge.records.end()) break;
      path.push_back(*next);
      if (next->get() == &awaiter_) break;
      edge = edge_of_(**next);
    }
    return path;
  }

 private:
  static constexpr std::size_t kMost = 20'000;

  // False: there is too much to search.
  bool add(AwaitEdge edge) {
    steps_ += edge.records.size();
    if (steps_ > kMost) return false;
    for (const TaskRef& each : edge.records) {
      if (!each->is_done() && can_end_.try_emplace(each.get(), false).second) reached_.push_back(each.get());
    }
    return true;
  }
  [[nodiscard]] bool is_stuck(const TaskRef& record) const {
    if (record->is_done()) return false;
    const auto known = can_end_.find(record.get());
    return known != can_end_.end() && !known->second;
  }
  [[nodiscard]] bool satisfiable(AwaitEdge edge) const {
    const auto able = [this](const TaskRef& each) { return !is_stuck(each); };
    return edge.need == 0 || static_cast<std::size_t>(std::ranges::count_if(edge.records, able)) >= edge.need;
  }

  const TaskRecord& awaiter_;
  EdgeOf edge_of_;
  std::vector<const TaskRecord*> reached_;
  std::unordered_map<const TaskRecord*, bool> can_end_;
  std::size_t steps_ = 0;
  bool gave_up_ = true;
};

}  // namespace cohort::internal
