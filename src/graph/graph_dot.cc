#include <cstdio>

#include "cohort/graph/internal/graph_engine.h"

namespace cohort::internal {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

const char* color_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return "#b7e4c7";
    case Outcome::kFallback: return "#ffe8a3";
    case Outcome::kSkipped: return "#e9ecef";
    case Outcome::kCancelled: return "#dee2e6";
    case Outcome::kUpstreamFailed: return "#ffd8c2";
    default: return "#f8b4b4";
  }
}

std::string in_ms(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", std::chrono::duration<double, std::milli>(duration).count());
  return text;
}

std::string label_of(const NodeReport& report) {
  std::string text = report.name + "\n" + std::string(to_string(report.outcome));
  if (report.attempts != 0) text += "\n" + in_ms(report.queued) + " + " + in_ms(report.ran) + " ms";
  return text;
}

}  // namespace

std::string to_dot(const GraphPlan& plan, const std::string& name, const RunState* run) {
  std::string dot = "digraph " + quoted(name) + " {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", ";
  dot += "fillcolor=white, fontname=\"sans-serif\"];\n";
  const std::vector<NodeReport> reports = run != nullptr ? reports_of(*run) : std::vector<NodeReport>();
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const NodeSpec& spec = *plan.nodes[i].spec;
    dot += "  " + quoted(spec.name);
    if (run == nullptr) {
      dot += spec.group == spec.name ? "" : " [label=" + quoted(spec.name + "\n" + spec.group) + "]";
      dot += spec.is_output ? " [peripheries=2]" : "";
    } else {
      dot += " [label=" + quoted(label_of(reports[i])) + ", fillcolor=\"" + color_of(reports[i].outcome) + "\"";
      dot += spec.is_output ? ", peripheries=2" : "";
      dot += reports[i].on_critical_path ? ", penwidth=3]" : "]";
    }
    dot += ";\n";
  }
  for (const GraphPlan::Node& node : plan.nodes) {
    for (const GraphPlan::Node::Child& child : node.children) {
      const NodeSpec& to = *plan.nodes[child.node].spec;
      dot += "  " + quoted(node.spec->name) + " -> " + quoted(to.name);
      const bool critical = run != nullptr && reports[to.index].on_critical_path &&
                            run->slot(to.index).last_input.load(std::memory_order_relaxed) == node.spec->index;
      if (child.optional || critical) {
        dot += std::string(" [") + (child.optional ? "style=dashed" : "") + (child.optional && critical ? ", " : "") +
               (critical ? "penwidth=3" : "") + "]";
      }
      dot += ";\n";
    }
  }
  return dot + "}\n";
}

}  // namespace cohort::internal
