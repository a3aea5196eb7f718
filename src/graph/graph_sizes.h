#pragma once

#include <deque>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/graph/graph_options.h"
#include "cohort/graph/internal/run_state.h"
#include "cohort/task/executor.h"
#include "graph/group_sizer.h"

namespace cohort::internal {

/// The concurrency of a graph's groups: sets it in the executor, and has it follow what runs are seen to need.
///
/// Thread-safety: thread-safe. Plan, executor and options outlive it.
class GraphSizes {
 public:
  GraphSizes(const GraphPlan& plan, Executor& executor, const GraphOptions& options);

  /// A run has ended; now and then sizes change with that, and options.on_resize is told.
  void count(const RunState& run, Time now) COHORT_EXCLUDES(mutex_);
  /// The last changes, the oldest first; at most 64.
  [[nodiscard]] std::vector<SizeChange> changes() const COHORT_EXCLUDES(mutex_);

 private:
  std::vector<SizeChange> follow(const RunState& run, Time now) COHORT_EXCLUDES(mutex_);
  void set_size(const std::string& group, std::uint32_t size);

  const GraphPlan& plan_;
  Executor& executor_;
  const GraphOptions& options_;
  const Duration every_;  // 0: never.

  mutable Mutex mutex_;
  GroupSizer sizer_ COHORT_GUARDED_BY(mutex_);
  std::vector<GroupSizer::Measured> measured_ COHORT_GUARDED_BY(mutex_);
  std::deque<SizeChange> changes_ COHORT_GUARDED_BY(mutex_);
  Time changed_at_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort::internal
