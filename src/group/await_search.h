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
/// others wait for, and for how many of it, is what `edge_of(record)` says. A search that reaches more than 10,000 is
/// given up.
template <class EdgeOf>
class AwaitSearch {
 public:
  AwaitSearch(const TaskRecord& awaiter, AwaitEdge first, EdgeOf edge_of)
      : awaiter_(awaiter), edge_of_(std::move(edge_of)) {
    for (const TaskRef& each : first.records) add(each);
    for (std::size_t i = 0; i < reached_.size() && reached_.size() <= kMost; ++i) {
      for (const TaskRef& each : edge_of_(*reached_[i]).records) add(each);
    }
    if (reached_.size() > kMost) return;
    gave_up_ = false;
    bool more = true;
    while (more) {
      more = false;
      // From the far end: then a chain of any length takes one pass.
      std::for_each(reached_.rbegin(), reached_.rend(), [&](const TaskRecord* each) {
        bool& able = can_end_[each];
        if (able || each == &awaiter_ || !satisfiable(edge_of_(*each))) return;
        able = more = true;
      });
    }
  }

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
  static constexpr std::size_t kMost = 10'000;

  void add(const TaskRef& each) {
    if (!each->is_done() && can_end_.try_emplace(each.get(), false).second) reached_.push_back(each.get());
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
  bool gave_up_ = true;
};

}  // namespace cohort::internal
