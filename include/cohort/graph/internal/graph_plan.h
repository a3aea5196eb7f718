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
  std::unique_ptr<NodeBody> body;  ///< Null: declared only.
  std::vector<Input> inputs;
  bool foreign_input = false;  ///< One of its inputs is another builder's.
  bool defined_twice = false;
  bool is_output = false;
  bool built = false;  ///< It is part of a plan, and not to be changed any more.

  std::string group;
  StepOptions step;
  bool has_timeout = false;
  bool lightweight = false;
  std::optional<std::uint32_t> concurrency;
  std::optional<Demand> demand;
  std::shared_ptr<Router> pool;
  std::function<bool(const RunValues&)> when;
  /// Makes the value at `place`; what it throws is its failure.
  std::function<void(const RunValues&, const Error&, void* place)> fallback;
};

/// A graph that can be run: checked, with everything worked out that does not depend on the request.
struct GraphPlan {
  struct Node {
    std::shared_ptr<NodeSpec> spec;
    struct Child {
      std::uint32_t node = 0;
      bool optional = false;
    };
    std::vector<Child> children;
    std::uint32_t needed_by = 0;               ///< Its children, and the caller if it is an output.
    std::uint32_t layer = 0;                   ///< One more than the highest of its inputs.
    std::size_t value_offset = 0;              ///< In the memory of a run.
    std::uint32_t group = 0;                   ///< Its place in `groups`.
    std::shared_ptr<const TaskLabel> label{};  ///< Of its records.
    bool is_coroutine = false;
    bool takes_context = false;
  };
  struct Group {
    std::string name;
    std::optional<std::uint32_t> concurrency;  ///< What its nodes say, the largest.
    double demand = 0;                         ///< The sum of what its nodes say; 0: they do not.
  };

  std::vector<Node> nodes;           ///< By index.
  std::vector<std::uint32_t> order;  ///< Inputs before those who need them.
  std::vector<Group> groups;
  std::shared_ptr<const TaskLabel> run_label;  ///< Of runs that have ended before anybody asked for a handle.
  std::size_t values_size = 0;
  std::size_t values_alignment = 1;

  /// Refuses, with names and paths: a cycle, an input that is never defined, a result that is neither consumed nor an
  /// output, two nodes of one name, settings that cannot be.
  static Result<std::shared_ptr<const GraphPlan>> make(std::vector<std::shared_ptr<NodeSpec>> specs,
                                                       const GraphOptions& options);

  [[nodiscard]] std::vector<std::vector<std::string>> layers() const;
};

}  // namespace cohort::internal
