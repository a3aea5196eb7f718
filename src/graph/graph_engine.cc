#include "cohort/graph/internal/graph_engine.h"

#include <algorithm>

#include "cohort/graph/graph_run.h"
#include "graph/graph_engine_parts.h"

namespace cohort {

bool GraphRun::complete() const {
  const internal::GraphPlan& plan = run_->plan();
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].spec->is_output && !run_->slot(i).has_value) return false;
  }
  return true;
}

namespace internal {

std::shared_ptr<GraphEngine> make_graph_engine(std::shared_ptr<const GraphPlan> plan, Executor& executor,
                                               GraphOptions options) {
  return std::make_shared<BasicGraphEngine<>>(std::move(plan), executor, std::move(options));
}

std::vector<NodeReport> reports_of(const RunState& run) {
  std::vector<NodeReport> reports;
  const GraphPlan& plan = run.plan();
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const NodeSlot& slot = run.slot(i);
    NodeReport& report = reports.emplace_back();
    report.name = plan.nodes[i].spec->name;
    report.group = plan.nodes[i].spec->group;
    report.outcome = slot.outcome;
    report.is_fallback = slot.is_fallback;
    if (slot.error) report.error = *slot.error;
    report.attempts = slot.attempt_count.load(std::memory_order_relaxed);
    const Time::rep ready = slot.ready_at.load(std::memory_order_relaxed);
    const Time::rep started = slot.started_at.load(std::memory_order_relaxed);
    if (ready == 0) {
      report.ready = slot.ended_at - run.begun_at;
      continue;
    }
    // One that was cancelled may have gone on a little after its end.
    const Time could = std::min(Time(Duration(ready)), slot.ended_at);
    const Time began = started == 0 ? slot.ended_at : std::min(Time(Duration(started)), slot.ended_at);
    report.ready = could - run.begun_at;
    report.queued = std::max(began - could, Duration::zero());
    report.ran = slot.ended_at - began;
  }
  for (const std::uint32_t index : run.critical_path()) reports[index].on_critical_path = true;
  return reports;
}

}  // namespace internal
}  // namespace cohort
