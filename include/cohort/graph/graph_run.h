#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/assert.h"
#include "cohort/graph/graph_node.h"
#include "cohort/graph/graph_stats.h"
#include "cohort/graph/internal/graph_engine.h"

namespace cohort {

/// A run that has ended, with the value and the outcome of every node. All copies refer to one run.
///
/// Thread-safety: thread-safe, except assigning to one object.
class GraphRun {
 public:
  explicit GraphRun(internal::Ref<internal::RunState> run) : run_(std::move(run)) {}

  /// True if every output node has a value, either its own or a fallback.
  [[nodiscard]] bool complete() const;
  /// The value of the node. Null if the node has no value.
  template <class Request, class T>
  [[nodiscard]] const T* find(const GraphNode<Request, T>& node) const {
    return static_cast<const T*>(run_->value(place_of(node)));
  }
  /// The value of a node that has a value. Asserts that it has one; otherwise use find().
  template <class Request, class T>
  [[nodiscard]] const T& operator[](const GraphNode<Request, T>& node) const {
    const T* value = find(node);
    COHORT_ASSERT(value != nullptr, "operator[] is for a node that gave a value; look with find()");
    return *value;
  }
  /// How the node ended.
  template <class Request, class T>
  [[nodiscard]] Outcome outcome(const GraphNode<Request, T>& node) const {
    return run_->slot(place_of(node)).outcome;
  }
  /// True if the value comes from GraphNode::otherwise(). A skipped node can have this kind of value too.
  template <class Request, class T>
  [[nodiscard]] bool is_fallback(const GraphNode<Request, T>& node) const {
    return run_->slot(place_of(node)).is_fallback;
  }
  /// Why the node did not end as kOk. Null if it did.
  template <class Request, class T>
  [[nodiscard]] const Error* error(const GraphNode<Request, T>& node) const {
    return run_->slot(place_of(node)).error.get();
  }
  [[nodiscard]] Duration duration() const { return run_->ended_at - run_->begun_at; }
  /// A report of every node, in the order of declaration.
  [[nodiscard]] std::vector<NodeReport> reports() const { return internal::reports_of(*run_); }

  /// For Graph::to_dot.
  [[nodiscard]] const internal::RunState& state() const { return *run_; }

 private:
  template <class Request, class T>
  [[nodiscard]] std::uint32_t place_of(const GraphNode<Request, T>& node) const {
    const auto& nodes = run_->plan().nodes;
    COHORT_ASSERT(node.index() < nodes.size() && nodes[node.index()].spec.get() == &node.spec(),
                  "a run is asked for nodes of its own graph");
    return node.index();
  }

  internal::Ref<internal::RunState> run_;
};

}  // namespace cohort
