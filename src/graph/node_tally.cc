#include "graph/node_tally.h"

namespace cohort::internal {
namespace {

std::size_t part_of_this_thread(std::size_t parts) {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t own = next.fetch_add(1, std::memory_order_relaxed);
  return own % parts;
}

Duration between(Time::rep from, Time::rep to) { return Duration(std::max<Time::rep>(to - from, 0)); }

}  // namespace

GraphTally::GraphTally(const GraphPlan& plan) : plan_(plan) {}

void GraphTally::count(const RunState& run) {
  Part& part = parts_[part_of_this_thread(kParts)];
  bool complete = true;
  MutexLock lock(part.mutex);
  const std::size_t count = plan_.nodes.size();
  if (part.nodes.size() != count) part.nodes.resize(count);  // A thread that never counts has none.
  for (std::uint32_t i = 0; i < count; ++i) {
    const NodeSlot& slot = run.slot(i);
    NodePart& node = part.nodes[i];
    ++node.outcomes[static_cast<std::size_t>(slot.outcome)];
    complete = complete && (slot.has_value || !plan_.nodes[i].spec->is_output);
    const Time::rep started = slot.started_at.load(std::memory_order_relaxed);
    if (started == 0) continue;
    node.queued.record(between(slot.ready_at.load(std::memory_order_relaxed), started));
    node.ran.record(between(started, slot.ended_at.time_since_epoch().count()));
  }
  for (std::uint32_t at = run.last_ended; at != NodeSlot::kNone;
       at = run.slot(at).last_input.load(std::memory_order_relaxed)) {
    ++part.nodes[at].critical;
  }
  ++part.runs;
  part.complete += complete ? 1 : 0;
  part.duration.record(run.ended_at - run.begun_at);
}

GraphStats GraphTally::stats() const {
  GraphStats stats;
  Histogram duration;
  std::vector<NodePart> nodes(plan_.nodes.size());
  for (const Part& part : parts_) {
    MutexLock lock(part.mutex);
    stats.runs += part.runs;
    stats.complete += part.complete;
    duration.merge(part.duration);
    for (std::size_t i = 0; i < part.nodes.size(); ++i) {
      for (std::size_t k = 0; k < kOutcomes; ++k) nodes[i].outcomes[k] += part.nodes[i].outcomes[k];
      nodes[i].critical += part.nodes[i].critical;
      nodes[i].queued.merge(part.nodes[i].queued);
      nodes[i].ran.merge(part.nodes[i].ran);
    }
  }
  stats.p50 = duration.quantile(0.5);
  stats.p99 = duration.quantile(0.99);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NodeStats& node = stats.nodes.emplace_back();
    node.name = plan_.nodes[i].spec->name;
    node.group = plan_.nodes[i].spec->group;
    node.outcomes = nodes[i].outcomes;
    node.on_critical_path = nodes[i].critical;
    node.queued_p50 = nodes[i].queued.quantile(0.5);
    node.queued_p99 = nodes[i].queued.quantile(0.99);
    node.p50 = nodes[i].ran.quantile(0.5);
    node.p95 = nodes[i].ran.quantile(0.95);
    node.p99 = nodes[i].ran.quantile(0.99);
  }
  return stats;
}

}  // namespace cohort::internal
