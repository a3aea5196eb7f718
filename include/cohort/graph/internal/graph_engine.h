#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/graph/graph_options.h"
#include "cohort/graph/graph_stats.h"
#include "cohort/graph/internal/graph_plan.h"
#include "cohort/graph/internal/run_state.h"
#include "cohort/task/executor.h"

namespace cohort::internal {

class NodeRecord;

/// Runs a plan on an executor. Production code and the tests that plant bugs use different implementations.
class GraphEngine : public std::enable_shared_from_this<GraphEngine> {
 public:
  virtual ~GraphEngine() = default;

  [[nodiscard]] virtual const GraphPlan& plan() const = 0;
  [[nodiscard]] virtual Executor& executor() const = 0;
  [[nodiscard]] virtual const GraphOptions& options() const = 0;

  /// Starts a run whose request is in its place. Returns when the nodes that run on this thread have returned.
  virtual void start(RunState& run, const RunOptions& options) = 0;
  /// Ends all nodes that have not ended as cancelled.
  virtual void cancel(RunState& run) = 0;

  [[nodiscard]] virtual GraphStats stats() const = 0;
  /// The last changes of the groups' concurrency, the oldest first. At most 64.
  [[nodiscard]] virtual std::vector<SizeChange> size_changes() const = 0;

  // For NodeRecord.
  /// An attempt is about to run. False if it must not run, because its node has ended.
  virtual bool begin(RunState& run, NodeRecord& record) = 0;
  /// An attempt has ended.
  virtual void on_attempt_end(RunState& run, NodeRecord& record) = 0;
};

std::shared_ptr<GraphEngine> make_graph_engine(std::shared_ptr<const GraphPlan> plan, Executor& executor,
                                               GraphOptions options);

[[nodiscard]] std::vector<NodeReport> reports_of(const RunState& run);
/// Draws the plan in the DOT language of Graphviz. If `run` is not null, with the outcome and times of each node.
[[nodiscard]] std::string to_dot(const GraphPlan& plan, const std::string& name, const RunState* run);

}  // namespace cohort::internal
