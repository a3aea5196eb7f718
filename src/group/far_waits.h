#pragma once

#include <unordered_map>
#include <vector>

#include "cohort/base/mutex.h"
#include "group/await_search.h"

namespace cohort::internal {

/// The waits that matter to more than one executor, of the whole process: those for a task of another executor, and
/// those of tasks that are awaited from another executor, directly or through others of their own.
///
/// Why no circle over several executors is missed. Whoever waits puts his wait in here first, then has what he awaits
/// marked by its executors, which puts in the waits of that and of all that it depends on, and only then looks for a
/// circle that leads back to him. So of the waits of a circle one is put in last, and who has put it in, or had it put
/// in, looks when all are there.
///
/// Thread-safety: thread-safe. Its lock is taken while that of a scheduler is held, never the other way round.
class FarWaits {
 public:
  /// The one of the process.
  static FarWaits& all();

  /// `edge` stays as it is until remove().
  void add(const TaskRecord& record, AwaitEdge edge) COHORT_EXCLUDES(mutex_);
  void remove(const TaskRecord& record) COHORT_EXCLUDES(mutex_);
  /// A circle that `awaiter` is in; else nothing. Where there is one its wait is removed, so that only one of those in
  /// it is told.
  std::vector<TaskRef> break_cycle(const TaskRecord& awaiter) COHORT_EXCLUDES(mutex_);

 private:
  using Edges = std::unordered_map<const TaskRecord*, AwaitEdge>;
  Mutex mutex_;
  Edges edges_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort::internal
