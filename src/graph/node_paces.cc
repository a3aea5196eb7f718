#include "graph/node_paces.h"

#include <algorithm>
#include <ranges>

namespace cohort::internal {
namespace {

// A percentile of fewer says little; and what was long ago says nothing. What was known stays until there are as many
// new ones.
constexpr std::uint64_t kLookEvery = 16;
constexpr std::uint64_t kForgetAfter = 4096;
constexpr Duration kSpare = std::chrono::milliseconds(1);  // For each node on the way: no two are alike to the last ns.

}  // namespace

NodePaces::NodePaces(const GraphPlan& plan) : plan_(plan), nodes_(plan.nodes.size()) {
  MutexLock lock(mutex_);
  took_.resize(plan.nodes.size());
  for (const std::uint32_t index : plan.order) {
    const NodeSpec& spec = *plan.nodes[index].spec;
    const bool leaves_time = spec.fallback && !spec.has_timeout;
    if (!leaves_time && !nodes_[index].is_measured) continue;
    for (const GraphPlan::Node::Child& child : plan.nodes[index].children) {
      nodes_[child.node].is_measured = true;
      if (!took_[child.node]) took_[child.node] = std::make_unique<Histogram>();
    }
  }
}

void NodePaces::record(std::uint32_t node, Duration took) {
  MutexLock lock(mutex_);
  Histogram& all = *took_[node];
  if (all.count() >= kForgetAfter) all.clear();
  all.record(took);
  if (all.count() % kLookEvery != 0) return;
  nodes_[node].p95_ns = all.quantile(0.95).count();
  follow();
}

void NodePaces::follow() {
  for (const std::uint32_t index : std::views::reverse(plan_.order)) {
    Duration::rep rest = 0;
    for (const GraphPlan::Node::Child& child : plan_.nodes[index].children) {
      const Duration::rep after = nodes_[child.node].rest_ns.load(std::memory_order_relaxed);
      if (nodes_[child.node].p95_ns < 0 || after < 0) {
        rest = -1;
        break;
      }
      rest = std::max(rest, nodes_[child.node].p95_ns + kSpare.count() + after);
    }
    nodes_[index].rest_ns.store(rest, std::memory_order_relaxed);
  }
}

}  // namespace cohort::internal
