#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/graph/graph_options.h"
#include "cohort/graph/internal/node_body.h"
#include "cohort/step/attempts.h"
#include "cohort/task/internal/task_label.h"

namespace cohort::internal {

/// A node as it was declared.
struct NodeSpec {
  struct Input {
    std::uint32_t node = 0;
    bool optional = false;
  };

  std::string name;
  std::uint32_t index = 0;
  std::unique_ptr<NodeBody> body;  ///< Null: declared, but not defined.
  std::vector<Input> inputs;
  bool foreign_input = false;  ///< An input belongs to another builder.
  bool defined_twice = false;
  bool is_output = false;
  bool built = false;  ///< The node is part of a plan and must not change any more.

  std::string group;
  StepOptions step;
  bool has_timeout = false;
  bool lightweight = false;
  std::optional<std::uint32_t> concurrency;
  std::optional<Demand> demand;
  std::shared_ptr<Router> pool;
  std::function<bool(const RunValues&)> when;
  /// Makes the value at `place`. If it throws, the node has no value.
  std::function<void(const RunValues&, const Error&, void* place)> fallback;
};

/// A checked graph that can be run. It holds all that does not depend on the request.
struct GraphPlan {
  struct Node {
    std::shared_ptr<NodeSpec> spec;
    struct Child {
      std::uint32_t node = 0;
      bool optional = false;
    };
    std::vector<Child> children;
    std::uint32_t needed_by = 0;               ///< The number of children, plus 1 if the node is an output.
    std::uint32_t layer = 0;                   ///< One more than the highest layer of the inputs.
    std::size_t value_offset = 0;              ///< The place of the value in the memory of a run.
    std::uint32_t group = 0;                   ///< The index of the node's group in `groups`.
    std::shared_ptr<const TaskLabel> label{};  ///< The label of the node's task records.
    bool is_coroutine = false;
    bool takes_context = false;
  };
  struct Group {
    std::string name;
    std::optional<std::uint32_t> concurrency;  ///< The largest GraphNode::concurrency of the group's nodes.
    double demand = 0;  ///< The sum of GraphNode::demand of the group's nodes. 0: none was given.
  };

  std::vector<Node> nodes;           ///< In the order of NodeSpec::index.
  std::vector<std::uint32_t> order;  ///< A topological order: inputs come before the nodes that need them.
  std::vector<Group> groups;
  std::shared_ptr<const TaskLabel> run_label;  ///< The label of runs that have ended before their handle was made.
  std::size_t values_size = 0;
  std::size_t values_alignment = 1;

  /// Checks the nodes. Fails with kInvalid and a message with names and paths. Refuses: a cycle; an input that is never
  /// defined; a result that is neither consumed nor an output; two nodes of one name; an illegal setting.
  static Result<std::shared_ptr<const GraphPlan>> make(std::vector<std::shared_ptr<NodeSpec>> specs,
                                                       const GraphOptions& options);

  [[nodiscard]] std::vector<std::vector<std::string>> layers() const;
};

}  // namespace cohort::internal
