#pragma once

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "cohort/base/assert.h"
#include "cohort/graph/internal/graph_plan.h"

namespace cohort {

template <class Request>
class GraphBuilder;
template <class Request, class T>
class GraphNode;

/// The view of a run for the conditions and fallbacks of a node: the request, and the values of the node's inputs.
template <class Request>
class RunView {
 public:
  explicit RunView(const internal::RunValues& run) : run_(run) {}
  [[nodiscard]] const Request& request() const { return *static_cast<const Request*>(run_.request()); }
  /// The value of an input of the node. Null if the input has no value. Only for inputs of the node.
  template <class T>
  [[nodiscard]] const T* find(const GraphNode<Request, T>& node) const {
    return static_cast<const T*>(run_.value(node.index()));
  }

 private:
  const internal::RunValues& run_;
};

/// A node of a graph. Pass it to other nodes as their input, change its settings, and read its result from a GraphRun.
///
///     auto offers = page.node("offers", fetch_offers, user, optional(cart))
///                       .timeout(50ms).retries(1).otherwise(Offers{}).output();
///
/// Settings may change only until the graph is built.
///
/// Thread-safety: thread-compatible.
template <class Request, class T>
class GraphNode {
 public:
  using Value = T;

  /// The executor group in which the node runs. By default the name of the node. Nodes of one group share its permits.
  GraphNode& group(std::string key) { return open().group = std::move(key), *this; }
  /// How many nodes of its group run at a time, independent of demand. If several nodes of the group say so, the
  /// largest number holds.
  GraphNode& concurrency(std::uint32_t most) { return open().concurrency = most, *this; }
  /// The expected duration of a call and the expected number of calls per second. The graph divides its concurrency
  /// among the groups by demand.
  GraphNode& demand(Duration latency, double per_second) { return open().demand = Demand{latency, per_second}, *this; }
  /// Time-out of the node, from the end of its last input to its own end, retries included. The node never gets more
  /// time than is left of the run.
  GraphNode& timeout(Duration duration) {
    open().has_timeout = true;
    return open().step.timeout = duration, *this;
  }
  /// Allows `count` attempts after the first, with waits of a tenth of a second to ten seconds between them.
  GraphNode& retries(std::uint32_t count) { return retry(quick_retries(count)); }
  /// Sets the number of retries and the waits between them.
  GraphNode& retry(const RetryPolicy& policy) { return open().step.retry = policy, *this; }
  /// Promises that the node is quick and never blocks, for example because it only merges, maps or picks values.
  ///
  /// The node then runs on the thread on which its last input ended. A node without inputs runs on the thread that
  /// called run(). It takes a permit of its group; if none is free, it queues like any other node. Its time-out is
  /// checked when it returns. Not allowed for a coroutine or for a node that calls a pool.
  GraphNode& lightweight() { return open().lightweight = true, *this; }
  /// Decides which failures are retried. Default: Error::retryable().
  GraphNode& retry_if(std::function<bool(const Error&)> worth_it) {
    return open().step.retry_if = std::move(worth_it), *this;
  }
  /// Makes each attempt a request to `pool` with the deadline of the node. The pool fails over between its providers;
  /// NodeContext::provider says which provider to ask. The graph shares the ownership of the pool.
  GraphNode& through(Router& pool) { return open().pool = pool.shared_from_this(), *this; }
  /// Decides whether the node is needed. The graph calls `condition` when the inputs of the node have ended, on any
  /// thread. If it returns false, the node is skipped. `condition` must be quick and must not await.
  GraphNode& when(std::function<bool(const RunView<Request>&)> condition) {
    open().when = [condition = std::move(condition)](const internal::RunValues& run) {
      return condition(RunView<Request>(run));
    };
    return *this;
  }
  /// Sets the value of the node for the case that it has none of its own, for any reason except a cancel. `fallback` is
  /// a value, or a function that takes nothing, the error, or the RunView and the error. The graph calls it at once, on
  /// any thread. It must be quick and must not await.
  template <class F>
  GraphNode& otherwise(F fallback) {
    open().fallback = [fallback = std::move(fallback)](const internal::RunValues& run, const Error& error,
                                                       void* place) {
      if constexpr (std::is_invocable_r_v<T, const F&, const RunView<Request>&, const Error&>) {
        ::new (place) T(fallback(RunView<Request>(run), error));
      } else if constexpr (std::is_invocable_r_v<T, const F&, const Error&>) {
        ::new (place) T(fallback(error));
      } else if constexpr (std::is_invocable_r_v<T, const F&>) {
        ::new (place) T(fallback());
      } else {
        static_assert(std::is_convertible_v<const F&, T>, "a fallback is a value of the node's type or makes one");
        ::new (place) T(fallback);
      }
    };
    return *this;
  }
  /// Marks the node as a result that the caller wants.
  GraphNode& output() { return open().is_output = true, *this; }

  [[nodiscard]] const std::string& name() const { return spec_->name; }
  [[nodiscard]] std::uint32_t index() const { return spec_->index; }
  /// The declaration of the node. GraphRun uses it to find the node's result.
  [[nodiscard]] const internal::NodeSpec& spec() const { return *spec_; }

 private:
  friend class GraphBuilder<Request>;
  explicit GraphNode(std::shared_ptr<internal::NodeSpec> spec) : spec_(std::move(spec)) {}
  internal::NodeSpec& open() {
    COHORT_ASSERT(!spec_->built, "settings are made before the graph is built");
    return *spec_;
  }

  std::shared_ptr<internal::NodeSpec> spec_;
};

/// An input that may have no value. The callable gets a pointer to the value, or null. Made by optional(node).
template <class Request, class T>
struct OptionalInput {
  GraphNode<Request, T> node;
};
/// Makes `node` an optional input. The dependent node still waits for the end of `node`.
template <class Request, class T>
OptionalInput<Request, T> optional(const GraphNode<Request, T>& node) {
  return {node};
}

}  // namespace cohort
