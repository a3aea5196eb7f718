#include "cohort/graph/internal/graph_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cohort/task/executor.h"

namespace cohort::internal {
namespace {

using Specs = std::vector<std::shared_ptr<NodeSpec>>;

Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }

std::string quoted(const std::string& name) { return "'" + name + "'"; }

Result<void> check_settings(const NodeSpec& spec) {
  const std::string who = "node " + quoted(spec.name);
  if (spec.step.timeout <= Duration::zero()) return invalid(who + " has a time-out of 0 or less");
  if (spec.group.empty()) return invalid(who + " has an empty group");
  if (spec.group.size() > Executor::kMaxKeyBytes) return invalid(who + " has a group with more than 1024 bytes");
  if (spec.concurrency == 0U) return invalid(who + " has a concurrency of 0, so it could never run");
  const double demand = spec.demand ? spec.demand->concurrency() : 1;
  const bool can_be = demand > 0 && demand < 1e6;  // What is no number cannot.
  if (!can_be) {
    return invalid(who + " has a demand of 0 or less, or above a million: give both its latency and its rate");
  }
  if (spec.concurrency && spec.demand) return invalid(who + " has both a concurrency and a demand; give one of them");
  return {};
}

Result<void> check_names(const Specs& specs) {
  std::map<std::string, int> names;
  for (const auto& spec : specs) {
    if (spec->name.empty()) return invalid("a node has no name");
    if (++names[spec->name] == 2) return invalid("there are two nodes of the name " + quoted(spec->name));
  }
  return {};
}

Result<void> check_definitions(const Specs& specs) {
  for (const auto& spec : specs) {
    if (spec->foreign_input) {
      return invalid("node " + quoted(spec->name) + " takes an input that was not declared in this graph");
    }
    if (spec->defined_twice) return invalid("node " + quoted(spec->name) + " is defined twice");
    for (const NodeSpec::Input& input : spec->inputs) {
      const NodeSpec& needed = *specs[input.node];
      if (!needed.body) {
        return invalid("node " + quoted(spec->name) + " needs " + quoted(needed.name) +
                       ", which is declared but never defined");
      }
    }
  }
  for (const auto& spec : specs) {
    if (!spec->body) return invalid("node " + quoted(spec->name) + " is declared but never defined");
    if (auto checked = check_settings(*spec); !checked) return checked;
  }
  return {};
}

// Follows inputs that cannot be ordered until one comes up again.
std::string cycle_through(const Specs& specs, const std::vector<std::uint32_t>& open, std::uint32_t first) {
  std::vector<std::uint32_t> path;
  std::uint32_t at = first;
  while (std::ranges::find(path, at) == path.end()) {
    path.push_back(at);
    const auto& inputs = specs[at]->inputs;
    at = std::ranges::find_if(inputs, [&](const NodeSpec::Input& input) { return open[input.node] != 0; })->node;
  }
  std::string text = quoted(specs[at]->name);
  for (auto step = path.rbegin(); *step != at; ++step) text += " -> " + quoted(specs[*step]->name);
  return text + " -> " + quoted(specs[at]->name);
}

Result<std::vector<std::uint32_t>> ordered(const Specs& specs) {
  std::vector<std::uint32_t> open(specs.size());  // Inputs that are not in the order yet.
  std::vector<std::vector<std::uint32_t>> children(specs.size());
  std::vector<std::uint32_t> order;
  for (const auto& spec : specs) {
    open[spec->index] = static_cast<std::uint32_t>(spec->inputs.size());
    for (const NodeSpec::Input& input : spec->inputs) children[input.node].push_back(spec->index);
    if (spec->inputs.empty()) order.push_back(spec->index);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::uint32_t child : children[order[i]]) {
      if (--open[child] == 0) order.push_back(child);
    }
  }
  if (order.size() == specs.size()) return order;
  const auto stuck = std::ranges::find_if(open, [](std::uint32_t count) { return count != 0; });
  return invalid("a cycle: " + cycle_through(specs, open, static_cast<std::uint32_t>(stuck - open.begin())));
}

Result<void> check_uses(const GraphPlan& plan) {
  for (const GraphPlan::Node& node : plan.nodes) {
    if (node.needed_by != 0) continue;
    return invalid("the result of node " + quoted(node.spec->name) +
                   " is neither consumed nor an output; mark it with output(), or leave it out");
  }
  return {};
}

std::size_t aligned(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

void link(GraphPlan& plan) {
  for (const std::uint32_t index : plan.order) {
    GraphPlan::Node& node = plan.nodes[index];
    for (const NodeSpec::Input& input : node.spec->inputs) {
      plan.nodes[input.node].children.push_back({index, input.optional});
      node.layer = std::max(node.layer, plan.nodes[input.node].layer + 1);
    }
  }
  for (GraphPlan::Node& node : plan.nodes) {
    node.needed_by = static_cast<std::uint32_t>(node.children.size()) + (node.spec->is_output ? 1 : 0);
    node.value_offset = aligned(plan.values_size, node.spec->body->value_alignment());
    plan.values_size = node.value_offset + node.spec->body->value_size();
    plan.values_alignment = std::max(plan.values_alignment, node.spec->body->value_alignment());
  }
}

void gather_groups(GraphPlan& plan) {
  std::map<std::string, std::uint32_t> places;
  for (GraphPlan::Node& node : plan.nodes) {
    const auto [place, is_new] = places.emplace(node.spec->group, static_cast<std::uint32_t>(plan.groups.size()));
    if (is_new) plan.groups.push_back({node.spec->group, {}, 0});
    node.group = place->second;
    node.label = std::make_shared<TaskLabel>(GroupAddress(node.spec->group), std::string_view());
    node.is_coroutine = node.spec->body->is_coroutine();
    node.takes_context = node.spec->body->takes_context() || node.spec->pool != nullptr;
    GraphPlan::Group& group = plan.groups[node.group];
    if (node.spec->concurrency) group.concurrency = std::max(group.concurrency.value_or(0), *node.spec->concurrency);
    if (node.spec->demand) group.demand += node.spec->demand->concurrency();
  }
}

}  // namespace

Result<std::shared_ptr<const GraphPlan>> GraphPlan::make(Specs specs, const GraphOptions& options) {
  constexpr std::size_t kMostNodes = 10'000;
  if (specs.empty()) return invalid("a graph needs at least one node");
  if (specs.size() > kMostNodes) return invalid("a graph has at most 10000 nodes");
  if (options.timeout <= Duration::zero() || options.node_timeout <= Duration::zero()) {
    return invalid("timeout and node_timeout of a graph are above 0");
  }
  for (auto& spec : specs) {
    if (!spec->has_timeout) spec->step.timeout = options.node_timeout;
  }
  if (auto checked = check_names(specs); !checked) return checked.error();
  if (auto checked = check_definitions(specs); !checked) return checked.error();
  for (const auto& spec : specs) {
    if (!spec->lightweight || (!spec->body->is_coroutine() && !spec->pool)) continue;
    return invalid(
        "node '" + spec->name + "' is lightweight, and " +
        (spec->pool ? "calls a pool, which may take its time" : "a coroutine, which runs where it is resumed"));
  }
  auto order = ordered(specs);
  if (!order) return order.error();
  auto plan = std::make_shared<GraphPlan>();
  plan->order = std::move(*order);
  plan->run_label = std::make_shared<TaskLabel>(GroupAddress(std::string_view()), options.name);
  for (auto& spec : specs) plan->nodes.push_back({.spec = std::move(spec), .children = {}});
  link(*plan);
  if (auto checked = check_uses(*plan); !checked) return checked.error();
  gather_groups(*plan);
  for (Node& node : plan->nodes) node.spec->built = true;
  return std::shared_ptr<const GraphPlan>(std::move(plan));
}

std::vector<std::vector<std::string>> GraphPlan::layers() const {
  std::vector<std::vector<std::string>> result;
  for (const std::uint32_t index : order) {
    const Node& node = nodes[index];
    if (result.size() <= node.layer) result.resize(node.layer + 1);
    result[node.layer].push_back(node.spec->name);
  }
  return result;
}

}  // namespace cohort::internal
