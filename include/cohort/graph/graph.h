#pragma once

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/graph/graph_node.h"
#include "cohort/graph/graph_options.h"
#include "cohort/graph/graph_run.h"
#include "cohort/graph/graph_stats.h"
#include "cohort/task/executor.h"
#include "cohort/task/promise.h"

namespace cohort {

/// A set of calls (nodes) that depend on one another. It is declared once and run for every request. Each type of node
/// runs in its own group of the executor.
///
/// A node starts when all its inputs have ended. If a node fails or times out, it gives its fallback. Without a
/// fallback, the nodes that need it fail. The other nodes go on. At the deadline at the latest the caller gets all
/// values that there are, and the outcome of each node.
///
/// Thread-safety: thread-safe. A Graph may be destroyed while runs are in progress. The end of its executor ends them.
/// Example: examples/09_graph.cc
template <class Request>
class Graph {
 public:
  explicit Graph(std::shared_ptr<internal::GraphEngine> engine) : engine_(std::move(engine)) {}

  /// Runs the graph and waits for the end of the run. A task that calls it parks. Lightweight nodes without inputs run
  /// on the calling thread.
  GraphRun run(Request request, const RunOptions& options = {}) const {
    internal::Ref<internal::RunState> run = make_run(std::move(request));
    engine_->start(*run, options);
    wait_for(run);
    return GraphRun(std::move(run));
  }

  /// Starts a run and returns a handle to await or co_await. cancel() on the handle ends the run: all nodes that have
  /// not ended end as cancelled.
  TaskHandle<GraphRun> start(Request request, const RunOptions& options = {}) const {
    internal::Ref<internal::RunState> run = make_run(std::move(request));
    engine_->start(*run, options);
    if (run->is_done()) return settled(std::move(run));
    Promise<GraphRun> promise(engine_->executor(), engine_->options().name, [run] { run->engine().cancel(*run); });
    TaskHandle<GraphRun> handle = promise.handle();
    auto settle = [promise = std::make_shared<Promise<GraphRun>>(std::move(promise)), run] {
      promise->settle(GraphRun(run));
    };
    if (!run->when_done(settle)) settle();
    return handle;
  }

  /// The names of the nodes, layer by layer. The inputs of a node are all in earlier layers.
  [[nodiscard]] std::vector<std::vector<std::string>> layers() const { return engine_->plan().layers(); }
  /// Draws the graph in the DOT language of Graphviz.
  [[nodiscard]] std::string to_dot() const {
    return internal::to_dot(engine_->plan(), engine_->options().name, nullptr);
  }
  /// Draws a run in the DOT language of Graphviz, with the outcome and times of each node and the critical path.
  [[nodiscard]] std::string to_dot(const GraphRun& run) const {
    return internal::to_dot(engine_->plan(), engine_->options().name, &run.state());
  }
  [[nodiscard]] GraphStats stats() const { return engine_->stats(); }
  /// The last changes of the groups' concurrency, the oldest first.
  [[nodiscard]] std::vector<SizeChange> size_changes() const { return engine_->size_changes(); }

 private:
  internal::Ref<internal::RunState> make_run(Request request) const {
    auto run = internal::RunState::make(engine_, sizeof(Request), alignof(Request));
    ::new (run->request_place()) Request(std::move(request));
    run->set_request_destructor([](void* place) { static_cast<Request*>(place)->~Request(); });
    return run;
  }

  TaskHandle<GraphRun> settled(internal::Ref<internal::RunState> run) const {
    using Record = internal::PromiseRecord<GraphRun>;
    const internal::RunState& state = *run;
    return TaskHandle<GraphRun>(internal::Ref<internal::ResultRecord<GraphRun>>::adopt(
        new Record(*state.plan().run_label, GraphRun(std::move(run)), state.begun_at, state.ended_at)));
  }

  void wait_for(const internal::Ref<internal::RunState>& run) const {
    if (run->is_done()) return;
    auto promise = std::make_shared<Promise<void>>(engine_->executor(), engine_->options().name);
    const TaskHandle<void> handle = promise->handle();
    if (!run->when_done([promise] { promise->settle({}); })) return;
    if (!handle.take().ok() && !handle.is_done()) {
      // The waiting task has run out of time, so its run is cancelled. The run ends when the running fallbacks have
      // ended.
      engine_->cancel(*run);
      internal::ExecutorAccess::block(*internal::AwaitState::make(handle.record()));
    }
  }

  std::shared_ptr<internal::GraphEngine> engine_;
};

/// Declares a graph.
///
///     GraphBuilder<PageRequest> page;
///     auto user = page.node("user", [](const PageRequest& request) { return fetch_user(request.user_id); });
///     auto cart = page.node("cart", [](const User& user) { return fetch_cart(user); }, user).timeout(80ms);
///     auto body = page.node("body", render, user, optional(cart)).output();
///     Result<Graph<PageRequest>> graph = page.build(executor);
///
/// A callable takes the NodeContext (optional), the request (optional) and then its inputs. It returns T, Result<T>,
/// std::variant<T, Failure>, or a Task of one of these. The graph calls it as const, from several threads at once.
///
/// Thread-safety: thread-compatible.
template <class Request>
class GraphBuilder {
 public:
  /// Adds a node. `inputs` are nodes of this builder, each as it is or as optional(node).
  template <class F, class... Inputs>
  auto node(std::string name, F callable, Inputs... inputs) {
    using Body = internal::TypedNodeBody<Request, F, InputOf<Inputs>...>;
    const std::shared_ptr<internal::NodeSpec> spec = add(std::move(name));
    put_body<Body>(*spec, std::move(callable), inputs...);
    return GraphNode<Request, typename Body::Value>(spec);
  }

  /// Adds a node without a callable, so that it can be an input before define() defines it.
  template <class T>
  GraphNode<Request, T> declare(std::string name) {
    return GraphNode<Request, T>(add(std::move(name)));
  }
  /// Gives a declared node its callable and its inputs.
  template <class T, class F, class... Inputs>
  GraphNode<Request, T> define(GraphNode<Request, T> declared, F callable, Inputs... inputs) {
    using Body = internal::TypedNodeBody<Request, F, InputOf<Inputs>...>;
    static_assert(std::is_same_v<typename Body::Value, T>, "the callable gives what its node was declared to give");
    if (declared.spec_->body) {
      declared.spec_->defined_twice = true;
    } else {
      put_body<Body>(*declared.spec_, std::move(callable), inputs...);
    }
    return declared;
  }

  /// Checks the graph and sets the concurrency of its groups. Fails with kInvalid; the message names the wrong nodes.
  /// The builder is empty afterwards. Its GraphNode objects stay valid: they name the results of a run.
  Result<Graph<Request>> build(Executor& executor, GraphOptions options = {}) {
    auto plan = plan_for(options);
    if (!plan) return plan.error();
    return Graph<Request>(internal::make_graph_engine(std::move(*plan), executor, std::move(options)));
  }
  /// Checks the graph and returns only its plan. For tests of engines.
  Result<std::shared_ptr<const internal::GraphPlan>> plan_for(const GraphOptions& options) {
    return internal::GraphPlan::make(std::exchange(specs_, {}), options);
  }

 private:
  template <class Input>
  struct InputTraits;
  template <class T>
  struct InputTraits<GraphNode<Request, T>> {
    using Type = internal::NodeInput<T, false>;
    static const GraphNode<Request, T>& node(const GraphNode<Request, T>& input) { return input; }
    static constexpr bool kOptional = false;
  };
  template <class T>
  struct InputTraits<OptionalInput<Request, T>> {
    using Type = internal::NodeInput<T, true>;
    static const GraphNode<Request, T>& node(const OptionalInput<Request, T>& input) { return input.node; }
    static constexpr bool kOptional = true;
  };
  template <class Input>
  using InputOf = typename InputTraits<Input>::Type;

  const std::shared_ptr<internal::NodeSpec>& add(std::string name) {
    auto spec = std::make_shared<internal::NodeSpec>();
    spec->group = name;
    spec->name = std::move(name);
    spec->index = static_cast<std::uint32_t>(specs_.size());
    specs_.push_back(std::move(spec));
    return specs_.back();
  }

  template <class Body, class F, class... Inputs>
  void put_body(internal::NodeSpec& spec, F callable, const Inputs&... inputs) {
    (add_input(spec, inputs), ...);
    const std::array<std::uint32_t, sizeof...(Inputs)> indices = {InputTraits<Inputs>::node(inputs).index()...};
    spec.body = std::make_unique<Body>(std::move(callable), indices, spec.pool);
  }

  template <class Input>
  void add_input(internal::NodeSpec& spec, const Input& input) {
    const internal::NodeSpec& named = *InputTraits<Input>::node(input).spec_;
    const bool own = named.index < specs_.size() && specs_[named.index].get() == &named;
    spec.foreign_input = spec.foreign_input || !own;
    if (own) spec.inputs.push_back({named.index, InputTraits<Input>::kOptional});
  }

  std::vector<std::shared_ptr<internal::NodeSpec>> specs_;
};

}  // namespace cohort
