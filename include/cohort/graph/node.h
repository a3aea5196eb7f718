#pragma once

#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "cohort/graph/internal/graph_plan.h"

namespace cohort {

template <class Request>
class GraphBuilder;
template <class Request, class T>
class Node;

/// A run as conditions and fallbacks see it: the request, and what the inputs of their node gave.
template <class Request>
class RunView {
 public:
  explicit RunView(const internal::RunValues& run) : run_(run) {}
  [[nodiscard]] const Request& request() const { return *static_cast<const Request*>(run_.request()); }
  /// Null: it gave none. Only for inputs of the node.
  template <class T>
  [[nodiscard]] const T* find(const Node<Request, T>& node) const {
    return static_cast<const T*>(run_.value(node.index()));
  }

 private:
  const internal::RunValues& run_;
};

/// A node of a graph that is being built: what others name as their input, and where its settings are made.
///
///     auto offers = page.node("offers", fetch_offers, user, optional(cart))
///                       .timeout(50ms).retries(1).otherwise(Offers{}).output();
///
/// Settings count until the graph is built.
///
/// Thread-safety: thread-compatible.
template <class Request, class T>
class Node {
 public:
  using Value = T;

  /// The group whose permits it takes; its name, unless it is told. Nodes of one group share them.
  Node& group(std::string key) { return spec_->group = std::move(key), *this; }
  /// How many of its group run at a time, whatever the demand is.
  Node& concurrency(std::uint32_t most) { return spec_->concurrency = most, *this; }
  /// What is expected of it: how long a call takes, and how many there are. Groups divide the graph's concurrency by
  /// it.
  Node& demand(Duration latency, double per_second) { return spec_->demand = Demand{latency, per_second}, *this; }
  /// From when it could start to its end, retries included; never more than is left of the run.
  Node& timeout(Duration duration) {
    spec_->has_timeout = true;
    return spec_->step.timeout = duration, *this;
  }
  Node& retries(std::uint32_t count, const Backoff& backoff = {}) {
    spec_->step.retries = count;
    return spec_->step.backoff = backoff, *this;
  }
  /// Which failures are worth a retry; by default those of Error::retryable().
  Node& retry_if(std::function<bool(const Error&)> worth_it) {
    return spec_->step.retry_if = std::move(worth_it), *this;
  }
  /// Each attempt is a request to that pool: it fails over, and NodeContext::provider says whom to ask. The pool must
  /// outlive the graph.
  Node& through(Router& pool) { return spec_->pool = &pool, *this; }
  /// Whether it is needed at all, asked when it could start: `bool(const RunView<Request>&)`. It must be quick.
  Node& when(std::function<bool(const RunView<Request>&)> condition) {
    spec_->when = [condition = std::move(condition)](const internal::RunValues& run) {
      return condition(RunView<Request>(run));
    };
    return *this;
  }
  /// Its value when it has none of its own, whatever the reason but a cancel: a value, or a function of the error, or
  /// of the RunView and the error, which is called at once and must be quick.
  template <class F>
  Node& otherwise(F fallback) {
    spec_->fallback = [fallback = std::move(fallback)](const internal::RunValues& run, const Error& error,
                                                       void* place) {
      if constexpr (std::is_invocable_r_v<T, const F&, const RunView<Request>&, const Error&>) {
        ::new (place) T(fallback(RunView<Request>(run), error));
      } else if constexpr (std::is_invocable_r_v<T, const F&, const Error&>) {
        ::new (place) T(fallback(error));
      } else {
        static_assert(std::is_convertible_v<const F&, T>, "a fallback is a value of the node's type or makes one");
        ::new (place) T(fallback);
      }
    };
    return *this;
  }
  /// The caller wants it.
  Node& output() { return spec_->is_output = true, *this; }

  [[nodiscard]] const std::string& name() const { return spec_->name; }
  [[nodiscard]] std::uint32_t index() const { return spec_->index; }

 private:
  friend class GraphBuilder<Request>;
  explicit Node(internal::NodeSpec& spec) : spec_(&spec) {}

  internal::NodeSpec* spec_;  // The graph's, once it is built.
};

/// An input that may be missing: the callable gets a pointer, which is null then. It is waited for all the same.
template <class Request, class T>
struct OptionalInput {
  Node<Request, T> node;
};
template <class Request, class T>
OptionalInput<Request, T> optional(const Node<Request, T>& node) {
  return {node};
}

}  // namespace cohort
