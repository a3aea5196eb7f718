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
  Node& group(std::string key) { return open().group = std::move(key), *this; }
  /// How many of its group run at a time, whatever the demand is.
  Node& concurrency(std::uint32_t most) { return open().concurrency = most, *this; }
  /// What is expected of it: how long a call takes, and how many there are. Groups divide the graph's concurrency by
  /// it.
  Node& demand(Duration latency, double per_second) { return open().demand = Demand{latency, per_second}, *this; }
  /// From when it could start to its end, retries included; never more than is left of the run.
  Node& timeout(Duration duration) {
    open().has_timeout = true;
    return open().step.timeout = duration, *this;
  }
  /// So many attempts after the first, with waits of a tenth of a second to ten seconds between them.
  Node& retries(std::uint32_t count) { return retry(quick_retries(count)); }
  Node& retry(const RetryPolicy& policy) { return open().step.retry = policy, *this; }
  /// It is quick and never blocks: it merges, maps, picks. Then it runs right where its last input ended, or where
  /// run() was called if it has none, with a permit of its group; where none is free it queues like any other node. Its
  /// time-out is looked at when it returns. Not for a coroutine, nor for one that calls a pool.
  Node& lightweight() { return open().lightweight = true, *this; }
  /// Which failures are worth a retry; by default those of Error::retryable().
  Node& retry_if(std::function<bool(const Error&)> worth_it) {
    return open().step.retry_if = std::move(worth_it), *this;
  }
  /// Each attempt is a request to that pool, with the node's deadline: it fails over, and NodeContext::provider says
  /// whom to ask. The graph shares in owning the pool.
  Node& through(Router& pool) { return open().pool = pool.shared_from_this(), *this; }
  /// Whether it is needed at all, asked when it could start: `bool(const RunView<Request>&)`. On any thread; it must be
  /// quick and await nothing.
  Node& when(std::function<bool(const RunView<Request>&)> condition) {
    open().when = [condition = std::move(condition)](const internal::RunValues& run) {
      return condition(RunView<Request>(run));
    };
    return *this;
  }
  /// Its value when it has none of its own, whatever the reason but a cancel: a value, or a function of nothing, of the
  /// error, or of the RunView and the error. It is called at once, on any thread, must be quick and await nothing.
  template <class F>
  Node& otherwise(F fallback) {
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
  /// The caller wants it.
  Node& output() { return open().is_output = true, *this; }

  [[nodiscard]] const std::string& name() const { return spec_->name; }
  [[nodiscard]] std::uint32_t index() const { return spec_->index; }
  /// For runs: which one it is.
  [[nodiscard]] const internal::NodeSpec& spec() const { return *spec_; }

 private:
  friend class GraphBuilder<Request>;
  explicit Node(std::shared_ptr<internal::NodeSpec> spec) : spec_(std::move(spec)) {}
  internal::NodeSpec& open() {
    COHORT_ASSERT(!spec_->built, "settings are made before the graph is built");
    return *spec_;
  }

  std::shared_ptr<internal::NodeSpec> spec_;
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
