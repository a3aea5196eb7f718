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

/// Runs a plan on an executor; production and the tests that plant bugs have one each.
class GraphEngine : public std::enable_shared_from_this<GraphEngine> {
 public:
  virtual ~GraphEngine() = default;

  [[nodiscard]] virtual const GraphPlan& plan() const = 0;
  [[nodiscard]] virtual Executor& executor() const = 0;
  [[nodiscard]] virtual const GraphOptions& options() const = 0;

  /// The request is in its place. Returns when all that is run here has been.
  virtual void start(RunState& run, const RunOptions& options) = 0;
  /// Ends what is open as cancelled.
  virtual void cancel(RunState& run) = 0;

  [[nodiscard]] virtual GraphStats stats() const = 0;
  /// The last changes of sizes, the oldest first; at most 64.
  [[nodiscard]] virtual std::vector<SizeChange> size_changes() const = 0;

  // For NodeRecord.
  /// The record comes to run. False: it is not to, its node has ended.
  virtual bool begin(RunState& run, NodeRecord& record) = 0;
  virtual void on_attempt_end(RunState& run, NodeRecord& record) = 0;
};

std::shared_ptr<GraphEngine> make_graph_engine(std::shared_ptr<const GraphPlan> plan, Executor& executor,
                                               GraphOptions options);

[[nodiscard]] std::vector<NodeReport> reports_of(const RunState& run);
/// For Graphviz; with how each node of `run` ended, unless it is null.
[[nodiscard]] std::string to_dot(const GraphPlan& plan, const std::string& name, const RunState* run);

}  // namespace cohort::internal
