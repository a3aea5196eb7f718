#include "group/far_waits.h"

namespace cohort::internal {

FarWaits& FarWaits::all() {
  static auto* one = new FarWaits;
  return *one;
}

void FarWaits::add(const TaskRecord& record, AwaitEdge edge) {
  MutexLock lock(mutex_);
  edges_[&record] = edge;
}

void FarWaits::remove(const TaskRecord& record) {
  MutexLock lock(mutex_);
  edges_.erase(&record);
}

std::vector<TaskRef> FarWaits::break_cycle(const TaskRecord& awaiter) {
  MutexLock lock(mutex_);
  const Edges* const edges = &edges_;  // As long as the lock is held.
  const auto edge_of = [edges](const TaskRecord& record) {
    const auto found = edges->find(&record);
    return found != edges->end() ? found->second : AwaitEdge();
  };
  const AwaitEdge own = edge_of(awaiter);
  std::vector<TaskRef> cycle = AwaitSearch(awaiter, own, edge_of).cycle(own);
  if (!cycle.empty()) edges_.erase(&awaiter);
  return cycle;
}

}  // namespace cohort::internal
