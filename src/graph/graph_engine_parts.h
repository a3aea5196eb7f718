#pragma once

// The body of the engine, for graph_engine.cc and for tests that plant bugs in it.

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"
#include "graph/graph_sizes.h"
#include "graph/node_pace.h"
#include "graph/node_record.h"
#include "graph/node_tally.h"
#include "graph/quick_nodes.h"

namespace cohort::internal {

/// Production has no planted bugs. Tests of the tests plant one at a time.
struct NoGraphFaults {
  static constexpr bool kStartTwice = false;              ///< The last but one input starts a node too.
  static constexpr bool kRequireOptional = false;         ///< An optional input that has no value fails the node.
  static constexpr bool kKeepPermitAfterTimeout = false;  ///< A node that is out of time keeps its permit.
  static constexpr bool kForgetRest = false;              ///< What is taken back of a series starts only at its end.
};

template <class Faults = NoGraphFaults>
class BasicGraphEngine final : public GraphEngine {
  using Nodes = QuickNodes<BasicGraphEngine>;

 public:
  BasicGraphEngine(std::shared_ptr<const GraphPlan> plan, Executor& executor, GraphOptions options)
      : plan_(std::move(plan)),
        executor_(executor),
        options_(std::move(options)),
        tally_(*plan_),
        paces_(plan_->nodes.size()),
        all_nodes_(labels_of(plan_->order)),
        sizes_(*plan_, executor_, options_) {
    for (std::uint32_t i = 0; i < plan_->nodes.size(); ++i) {
      indices_.push_back(i);
      single_nodes_.emplace_back(labels_of(std::span(&i, 1)));
    }
  }

  [[nodiscard]] const GraphPlan& plan() const override { return *plan_; }
  [[nodiscard]] Executor& executor() const override { return executor_; }
  [[nodiscard]] const GraphOptions& options() const override { return options_; }

  void start(RunState& run, const RunOptions& run_options) override {
    run.begun_at = executor_.clock().now();
    run.deadline = std::min(saturating_add(run.begun_at, options_.timeout), run_options.deadline.value_or(Time::max()));
    run.awaited = current_task() != nullptr;
    Starter starter(run);
    starter.runs_quick = options_.run_quick_nodes_here && !run.awaited && run.deadline > run.begun_at;
    const bool here = starter.runs_quick && all_quick_.load(std::memory_order_relaxed) && run_all_here(run);
    if (!here) {
      for (const std::uint32_t index : plan_->order) {
        if (plan_->nodes[index].spec->inputs.empty()) starter.ready.push_back(index);
      }
    }
    start_ready(starter);
  }

  void cancel(RunState& run) override {
    if (run.is_done()) return;
    const Ref<RunState> alive(run);
    Starter starter(run);
    Walk walk;
    for (const std::uint32_t index : plan_->order) cancel_node(run, index, walk);
    finish_walk(run, walk);
    start_ready(starter);
  }

  bool begin(RunState& run, NodeRecord& record) override {
    NodeSlot& slot = run.slot(record.index());
    if (slot.state.load(std::memory_order_acquire) != State::kStarted) return false;  // It has been cancelled.
    if (slot.attempts.number() == 1) {
      slot.started_at.store(record.started_at.time_since_epoch().count(), std::memory_order_relaxed);
    }
    slot.attempt_count.store(slot.attempts.number(), std::memory_order_relaxed);
    return true;
  }

  void on_attempt_end(RunState& run, NodeRecord& record) override {
    Starter starter(run);  // (The record keeps the run.)
    if (run.slot(record.index()).state.load(std::memory_order_acquire) == State::kStarted) {
      Duration queued = record.ended_at - record.submitted_at;
      std::optional<Duration> ran;
      if (record.has_begun()) {
        queued = record.started_at - record.submitted_at;
        ran = record.ended_at - record.started_at;
        add_busy(run.slot(record.index()), *ran);
      }
      learn(record.index(), queued, ran, record.status());
      Walk walk;
      conclude(run, record.index(), {record, record.status(), record.ended_at}, walk);
      finish_walk(run, walk);
    }
    start_ready(starter);
  }

  // For QuickNodes.

  /// True when the node is to run now.
  bool begin_here(Nodes& nodes) {
    RunState& run = nodes.run_state();
    NodeSlot& slot = run.slot(nodes.index());
    if (nodes.is_alone()) {
      // Who cancelled it before its record was there could not ask it to stop.
      if (slot.unwanted.load(std::memory_order_seq_cst)) return false;
    } else {
      // One that another thread is still to end: he starts it.
      if (slot.waits.load(std::memory_order_acquire) != 0 || !take(run, nodes.index())) return false;
      if (plan_->nodes[nodes.index()].spec->when) {
        Walk walk(&nodes);
        const bool goes = is_wanted(run, nodes.index(), walk);
        finish_walk(run, walk);
        if (!goes) return false;
      }
    }
    slot.started_at.store(nodes.started_at.time_since_epoch().count(), std::memory_order_relaxed);
    slot.attempt_count.store(1, std::memory_order_relaxed);
    return true;
  }

  /// The node has run.
  void end_here(Nodes& nodes, Time now) {
    RunState& run = nodes.run_state();
    NodeSlot& slot = run.slot(nodes.index());
    const Duration ran = now - nodes.started_at;
    const TaskStatus status = nodes.claimed_status();
    const Time ready(Duration(slot.ready_at.load(std::memory_order_relaxed)));
    learn(nodes.index(), nodes.started_at - ready, ran, status);
    if (slot.state.load(std::memory_order_acquire) != State::kStarted) return;
    add_busy(slot, ran);
    if (status == TaskStatus::kSuccess && now <= slot.attempts.deadline() && !nodes.is_alone()) {
      return end_well(run, nodes.index(), now, &nodes);
    }
    Starter starter(run);
    Walk walk(&nodes);
    conclude(run, nodes.index(), {nodes, status, now}, walk);
    finish_walk(run, walk);
    start_ready(starter);
  }

  /// Those that have not begun here are started elsewhere.
  void start_rest(Nodes& nodes) {
    if (nodes.is_alone() || Faults::kForgetRest) return;  // One alone: its own thread comes to that at once.
    const CurrentTaskScope scope(&nodes, true);
    start_ready_of(nodes);
  }

  /// None is left to run here.
  void start_rest_at_end(Nodes& nodes) {
    if (nodes.ended == nodes.order().size()) return;
    if (!nodes.is_alone()) {
      start_ready_of(nodes);
    } else if (nodes.begun() == 0) {
      start_attempt(nodes.run_state(), nodes.index(), Coming::kBack);
    }
  }

  /// Ends are counted only now, so that who waits for the run finds all permits back.
  void end_all_here(Nodes& nodes) {
    RunState& run = nodes.run_state();
    if (nodes.ended == 0 || run.pending.fetch_sub(nodes.ended, std::memory_order_acq_rel) != nodes.ended) return;
    std::uint32_t last = nodes.last_ended;
    for (std::uint32_t i = 0; i < plan_->nodes.size(); ++i) {
      if (run.slot(i).ended_at > run.slot(last).ended_at) last = i;
    }
    finish(run, last, run.slot(last).ended_at);
  }

  [[nodiscard]] GraphStats stats() const override {
    GraphStats stats = tally_.stats();
    for (NodeStats& node : stats.nodes) {
      node.concurrency = executor_.resolve(node.group).max_concurrency;
      if (auto group = executor_.group_stats(node.group)) {
        node.concurrency = group->limits.max_concurrency;
        node.running = group->running;
        node.waiting = group->waiting;
      }
    }
    return stats;
  }

  [[nodiscard]] std::vector<SizeChange> size_changes() const override { return sizes_.changes(); }

 private:
  using State = NodeSlot::State;

  // An end that follows from another one.
  struct PendingEnd {
    std::uint32_t index;
    State from;
    Outcome outcome;
    Error error;
  };
  struct Walk {
    Walk() = default;
    explicit Walk(Nodes* nodes) : here(nodes) {}

    Nodes* here = nullptr;  // In a body's stead on the thread of these.
    std::vector<PendingEnd> ends;
  };
  struct AttemptEnd {
    TaskRecord& record;
    TaskStatus status;
    Time at;
  };
  enum class Coming {
    kNew,
    kAgain,  // Another attempt.
    kBack,   // It had been let in as one of a series.
  };

  // Nodes that may start, collected while others end on this thread. The outermost one of a run starts them, so that a
  // long chain of quick nodes is a loop and not a recursion.
  struct Starter {
    explicit Starter(RunState& of, bool at_once = false)
        : run(of), outer(current), outermost(at_once || outer == nullptr || &outer->run != &of) {
      if (outermost) current = this;
    }
    ~Starter() {
      if (outermost) current = outer;
    }
    Starter(const Starter&) = delete;
    Starter& operator=(const Starter&) = delete;

    RunState& run;
    Starter* outer;
    bool outermost;
    bool runs_quick = false;  ///< On the thread of who asked for the run, which is in no task: quick nodes run here.
    std::vector<std::uint32_t> ready;
    static inline thread_local Starter* current = nullptr;
  };

  std::vector<const TaskLabel*> labels_of(std::span<const std::uint32_t> indices) const {
    std::vector<const TaskLabel*> labels;
    for (const std::uint32_t index : indices) labels.push_back(plan_->nodes[index].label.get());
    return labels;
  }

  // ---- starting

  void start_ready(Starter& starter) {
    if (!starter.outermost) return;
    while (!starter.ready.empty()) {
      // Those for workers first: nobody waits for what is run here.
      const auto next =
          std::ranges::find_if(starter.ready, [&](std::uint32_t each) { return !runs_here(starter, each); });
      const auto taken = next != starter.ready.end() ? next : starter.ready.end() - 1;
      const std::uint32_t index = *taken;
      starter.ready.erase(taken);
      Walk walk;
      const bool goes = take(starter.run, index) && is_wanted(starter.run, index, walk);
      finish_walk(starter.run, walk);
      if (goes && !(runs_here(starter, index) && run_alone_here(starter.run, index))) {
        start_attempt(starter.run, index, starter.run.let_in ? Coming::kBack : Coming::kNew);
      }
    }
  }

  // Its inputs have ended. True for the one who is to start it.
  bool take(RunState& run, std::uint32_t index) {
    NodeSlot& slot = run.slot(index);
    const NodeSpec& spec = *plan_->nodes[index].spec;
    // Whoever ended an input without a value is about to end this one: he has counted it down already, perhaps not
    // more.
    Time ready = run.begun_at;
    for (const NodeSpec::Input& input : spec.inputs) {
      const NodeSlot& from = run.slot(input.node);
      if (!input.optional && !from.has_value) return false;
      ready = std::max(ready, from.ended_at);
    }
    if (slot.unwanted.load(std::memory_order_seq_cst)) return false;  // Whoever said so ends it.
    State open = State::kOpen;
    if (!slot.state.compare_exchange_strong(open, State::kStarted, std::memory_order_acq_rel)) {
      return Faults::kStartTwice && open == State::kStarted;
    }
    slot.ready_at.store(ready.time_since_epoch().count(), std::memory_order_relaxed);
    slot.attempts = Attempts(spec.step, ready, run.deadline);
    return true;
  }

  // What its condition says.
  bool is_wanted(RunState& run, std::uint32_t index, Walk& walk) {
    const NodeSpec& spec = *plan_->nodes[index].spec;
    if (!spec.when) return true;
    try {
      if (spec.when(run)) return true;
      walk.ends.push_back(
          {index, State::kStarted, Outcome::kSkipped, {ErrorCode::kUnavailable, "its condition said no"}});
    } catch (...) {
      walk.ends.push_back({index, State::kStarted, Outcome::kFailed, Error::from_exception(std::current_exception())});
    }
    return false;
  }

  [[nodiscard]] bool runs_here(const Starter& starter, std::uint32_t index) const {
    return starter.runs_quick && paces_[index].is_quick() && !plan_->nodes[index].is_coroutine;
  }

  // Where every group could start a task at once.
  bool run_all_here(RunState& run) {
    const auto nodes = Ref<Nodes>::adopt(new Nodes(*this, run, all_nodes_, plan_->order));
    run.let_in = true;
    if (ExecutorAccess::run_series(executor_, *nodes, run.begun_at)) return true;
    run.let_in = false;
    return false;
  }
  bool run_alone_here(RunState& run, std::uint32_t index) {
    const auto nodes = Ref<Nodes>::adopt(new Nodes(*this, run, single_nodes_[index], std::span(&indices_[index], 1)));
    put_record(run, index, *nodes);
    const bool has_run = ExecutorAccess::run_series(executor_, *nodes, executor_.clock().now());
    if (run.slot(index).unwanted.load(std::memory_order_seq_cst)) drop_record(run, index, nodes.get());
    return has_run;
  }

  // What could start, and has not, of a series that is over here.
  void start_ready_of(Nodes& nodes) {
    RunState& run = nodes.run_state();
    Starter starter(run, true);
    for (const std::uint32_t index : nodes.order()) {
      const NodeSlot& slot = run.slot(index);
      if (slot.waits.load(std::memory_order_acquire) == 0 &&
          slot.state.load(std::memory_order_acquire) == State::kOpen) {
        starter.ready.push_back(index);
      }
    }
    start_ready(starter);
  }

  void start_attempt(RunState& run, std::uint32_t index, Coming coming) {
    NodeSlot& slot = run.slot(index);
    const Duration left = slot.attempts.deadline() - executor_.clock().now();
    const Duration wait = coming == Coming::kBack ? Duration(0) : expected_wait(index, left);
    if (left > Duration::zero() && wait > left) {
      const auto in_ms = [](Duration duration) {
        return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
      };
      end_started(run, index, Outcome::kRejected,
                  {ErrorCode::kRejected, "node '" + plan_->nodes[index].spec->name + "' would wait about " +
                                             in_ms(wait) + " ms and has " + in_ms(left) + " ms left"});
      return;
    }
    if (Faults::kKeepPermitAfterTimeout) end_late(run, index);
    const auto record = Ref<NodeRecord>::adopt(new NodeRecord(run, index, !Faults::kKeepPermitAfterTimeout));
    record->readmitted = coming == Coming::kBack;
    put_record(run, index, *record);
    if (coming == Coming::kAgain) {  // As if by itself: so it is never made to wait for room in a queue.
      const CurrentTaskScope scope(record.get(), true);
      ExecutorAccess::submit(executor_, *record);
    } else {
      ExecutorAccess::submit(executor_, *record);
    }
    // Who cancelled it before it was handed in could not, and may not come again to drop it.
    if (slot.unwanted.load(std::memory_order_seq_cst)) {
      ExecutorAccess::cancel(*record);
      drop_record(run, index, record.get());
    }
  }

  // A node type in which nodes have waited of late is asked how long one would have to now.
  Duration expected_wait(std::uint32_t index, Duration left) const {
    if (paces_[index].queued() * 10 < left) return Duration(0);
    return executor_.estimated_wait(plan_->nodes[index].spec->group);
  }

  void end_late(RunState& run, std::uint32_t index) {
    executor_.call_at(run.slot(index).attempts.deadline(), [this, alive = Ref<RunState>(run), index] {
      end_started(*alive, index, Outcome::kTimedOut, {ErrorCode::kTimedOut, "out of time"});
    });
  }

  // ---- records

  // For those who cancel.
  void put_record(RunState& run, std::uint32_t index, TaskRecord& record) {
    record.ref();
    drop_record(run, index);
    run.slot(index).record.store(&record, std::memory_order_seq_cst);
  }

  // This one, unless another has come in its place; or whichever is there.
  static void drop_record(RunState& run, std::uint32_t index, const TaskRecord* only = nullptr) {
    if (run.slot(index).record.load(std::memory_order_relaxed) == nullptr) return;
    MutexLock lock(run.mutex);
    if (only != nullptr && run.slot(index).record.load(std::memory_order_relaxed) != only) return;
    drop_record_locked(run, index);
  }
  static void drop_record_locked(RunState& run, std::uint32_t index) COHORT_REQUIRES(run.mutex) {
    if (run.slot(index).record.load(std::memory_order_relaxed) == nullptr) return;
    if (TaskRecord* record = run.slot(index).record.exchange(nullptr, std::memory_order_acq_rel)) record->unref();
  }

  // ---- ending

  void conclude(RunState& run, std::uint32_t index, const AttemptEnd& attempt, Walk& walk) {
    NodeSlot& slot = run.slot(index);
    if (attempt.status == TaskStatus::kSuccess) {
      if (attempt.record.timed || attempt.at <= slot.attempts.deadline()) {  // (The executor has seen to a timed one.)
        return end_well(run, index, attempt.at, walk.here);
      }
      forget_value(run, index);
      Error late{ErrorCode::kTimedOut, "node '" + plan_->nodes[index].spec->name + "' took longer than it may"};
      return end(run, index, State::kStarted, Outcome::kTimedOut, std::move(late), attempt.at, walk);
    }
    const Error* const reason = attempt.record.error();
    Error error = reason != nullptr ? *reason : Error{ErrorCode::kInternal, "no reason was given"};
    const Outcome outcome = outcome_of(attempt.status, error);
    if (outcome == Outcome::kTimedOut && attempt.status != TaskStatus::kFailed) {
      error.message = "node '" + plan_->nodes[index].spec->name + "' was still " +
                      (attempt.status == TaskStatus::kTimedOutQueued ? "waiting" : "running") +
                      " when its time was over";
    }
    if (outcome != Outcome::kCancelled && error.code != ErrorCode::kEnded) {
      Random random(options_.seed + seeds_.fetch_add(1, std::memory_order_relaxed));
      if (const std::optional<Time> next = slot.attempts.after_failure(error, attempt.at, random)) {
        executor_.call_at(*next, [this, before = TaskRef(attempt.record), alive = Ref<RunState>(run), index] {
          if (alive->slot(index).state.load(std::memory_order_acquire) != State::kStarted) return;
          // As if by the attempt before: nothing that follows is made to wait for room in a queue.
          const CurrentTaskScope scope(before.get(), true);
          start_attempt(*alive, index, Coming::kAgain);
        });
        return;
      }
    }
    end(run, index, State::kStarted, outcome, std::move(error), attempt.at, walk);
  }

  // (Attempts follow one another: nobody else writes.)
  static void add_busy(NodeSlot& slot, Duration ran) {
    slot.busy.store(slot.busy.load(std::memory_order_relaxed) + ran.count(), std::memory_order_relaxed);
  }

  static Outcome outcome_of(TaskStatus status, const Error& error) {
    switch (status) {
      case TaskStatus::kTimedOutQueued:
      case TaskStatus::kTimedOutRunning: return Outcome::kTimedOut;
      case TaskStatus::kRejected: return Outcome::kRejected;
      case TaskStatus::kCancelled: return Outcome::kCancelled;
      default: return cohort::outcome_of(error);
    }
  }

  void forget_value(RunState& run, std::uint32_t index) {
    if (run.slot(index).made.exchange(false, std::memory_order_relaxed)) {
      plan_->nodes[index].spec->body->destroy(run.value_place(index));
    }
  }

  void end_started(RunState& run, std::uint32_t index, Outcome outcome, Error error) {
    Starter starter(run);
    Walk walk;
    walk.ends.push_back({index, State::kStarted, outcome, std::move(error)});
    finish_walk(run, walk);
    start_ready(starter);
  }

  void finish_walk(RunState& run, Walk& walk) {
    if (walk.ends.empty()) return;
    const Ref<RunState> alive(run);
    const Time now = executor_.clock().now();  // Once: when the run has ended, its executor may have too.
    while (!walk.ends.empty()) {
      PendingEnd next = std::move(walk.ends.back());
      walk.ends.pop_back();
      end(run, next.index, next.from, next.outcome, std::move(next.error), now, walk);
    }
  }

  // A node ends here or in end(), and nowhere else. What follows from it for others goes into a Walk or to the Starter.
  // Whoever calls them keeps the run: a record, a walk, or who starts it.

  // With its own value.
  void end_well(RunState& run, std::uint32_t index, Time now, Nodes* here) {
    NodeSlot& slot = run.slot(index);
    State seen = State::kStarted;
    if (!slot.state.compare_exchange_strong(seen, State::kEnding, std::memory_order_acq_rel)) return;
    slot.outcome = Outcome::kOk;
    slot.has_value = true;
    slot.ended_at = now;
    slot.state.store(State::kEnded, std::memory_order_release);
    for (const GraphPlan::Node::Child& child : plan_->nodes[index].children) count_down(run, index, child.node, here);
    count_end(run, index, now, here);
  }

  // Without, unless it has a fallback.
  void end(RunState& run, std::uint32_t index, const State from, Outcome outcome, Error error, Time now, Walk& walk) {
    const GraphPlan::Node& node = plan_->nodes[index];
    NodeSlot& slot = run.slot(index);
    State seen = from;
    if (!slot.state.compare_exchange_strong(seen, State::kEnding, std::memory_order_acq_rel)) return;
    slot.outcome = outcome;
    slot.has_value = false;
    slot.ended_at = now;
    slot.error = std::make_unique<Error>(std::move(error));
    fall_back(run, node, slot);
    const bool has_value = slot.has_value;
    slot.state.store(State::kEnded, std::memory_order_release);

    for (const GraphPlan::Node::Child& child : node.children) {
      if (!has_value && (!child.optional || Faults::kRequireOptional)) fail_child(slot, node, child.node, walk);
      count_down(run, index, child.node, walk.here);
    }
    if (from == State::kOpen) {
      for (const NodeSpec::Input& input : node.spec->inputs) {
        if (run.slot(input.node).needed.fetch_sub(1, std::memory_order_acq_rel) == 1)
          cancel_node(run, input.node, walk);
      }
    }
    count_end(run, index, now, walk.here);
  }

  void count_end(RunState& run, std::uint32_t index, Time now, Nodes* here) {
    if (here != nullptr) {
      ++here->ended;
      here->last_ended = index;
    } else if (run.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      finish(run, index, now);
    }
  }

  void fall_back(RunState& run, const GraphPlan::Node& node, NodeSlot& slot) {
    if (!node.spec->fallback || slot.outcome == Outcome::kCancelled) return;
    const std::uint32_t index = node.spec->index;
    try {
      node.spec->fallback(run, *slot.error, run.value_place(index));
    } catch (...) {
      slot.error->message += "; and its fallback: " + Error::from_exception(std::current_exception()).message;
      return;
    }
    slot.made.store(true, std::memory_order_relaxed);
    slot.has_value = true;
    if (slot.outcome != Outcome::kSkipped) slot.outcome = Outcome::kFallback;
  }

  void fail_child(const NodeSlot& slot, const GraphPlan::Node& node, std::uint32_t child, Walk& walk) {
    const bool skipped = slot.outcome == Outcome::kSkipped;
    if (slot.outcome == Outcome::kUpstreamFailed) {  // The first reason is enough.
      walk.ends.push_back({child, State::kOpen, Outcome::kUpstreamFailed, *slot.error});
      return;
    }
    const std::string why = "it needs '" + node.spec->name + "', which " +
                            (skipped ? "was skipped" : "ended as " + std::string(to_string(slot.outcome)));
    walk.ends.push_back(
        {child,
         State::kOpen,
         skipped ? Outcome::kSkipped : Outcome::kUpstreamFailed,
         {ErrorCode::kUnavailable, slot.error->message.empty() ? why : why + ": " + slot.error->message}});
  }

  // One input less to wait for. Of a series of several, what can start comes later in it, or is collected at its end.
  void count_down(RunState& run, std::uint32_t index, std::uint32_t child, const Nodes* here) {
    NodeSlot& slot = run.slot(child);
    std::uint32_t before = slot.waits.load(std::memory_order_acquire);
    if (before == 1) {
      slot.waits.store(0, std::memory_order_release);  // Every input counts once: there is nobody else.
    } else {
      before = slot.waits.fetch_sub(1, std::memory_order_acq_rel);
    }
    if (before == 1) slot.last_input.store(index, std::memory_order_relaxed);
    const bool starts = before == 1 || (Faults::kStartTwice && before == 2);
    if (!starts || (here != nullptr && !here->is_alone())) return;
    if (slot.state.load(std::memory_order_acquire) == State::kOpen || Faults::kStartTwice) {
      Starter::current->ready.push_back(child);
    }
  }

  // Nobody wants it any more. A body that runs is asked to stop, and nobody waits for it.
  void cancel_node(RunState& run, std::uint32_t index, Walk& walk) {
    NodeSlot& slot = run.slot(index);
    slot.unwanted.store(true, std::memory_order_seq_cst);
    const Error error{ErrorCode::kCancelled, "nobody needs it any more"};
    State seen = slot.state.load(std::memory_order_acquire);
    if (seen == State::kOpen) {
      walk.ends.push_back({index, State::kStarted, Outcome::kCancelled, error});  // Should it begin in between.
      walk.ends.push_back({index, State::kOpen, Outcome::kCancelled, error});
    } else if (seen == State::kStarted) {
      walk.ends.push_back({index, State::kStarted, Outcome::kCancelled, error});
    } else {
      return;
    }
    TaskRef record;
    {
      MutexLock lock(run.mutex);
      if (TaskRecord* there = slot.record.load(std::memory_order_seq_cst)) record = TaskRef(*there);
    }
    if (!record) return;
    if (record->series) {
      record->request_stop();
    } else {
      ExecutorAccess::cancel(*record);
    }
  }

  void finish(RunState& run, std::uint32_t last, Time now) {
    run.last_ended = last;
    run.ended_at = now;
    tally_.count(run);
    sizes_.count(run, now);
    Function<void()> tell;
    {
      MutexLock lock(run.mutex);
      run.done = true;
      run.done_early.store(true, std::memory_order_release);
      tell = std::move(run.on_done);
      for (std::uint32_t i = 0; i < plan_->nodes.size(); ++i) drop_record_locked(run, i);
    }
    if (tell) tell();
  }

  // ---- learning

  static constexpr std::size_t kMostTogether = 64;

  void learn(std::uint32_t index, Duration queued, std::optional<Duration> ran, TaskStatus status) {
    if (!paces_[index].learn(queued, ran, status)) return;
    const std::size_t count = plan_->nodes.size();
    bool all = count > 1 && count <= kMostTogether && plan_->groups.size() == count;
    for (std::uint32_t i = 0; all && i < plan_->nodes.size(); ++i) {
      all = paces_[i].is_quick() && !plan_->nodes[i].is_coroutine;
    }
    if (all != all_quick_.load(std::memory_order_relaxed)) all_quick_.store(all, std::memory_order_relaxed);
  }

  const std::shared_ptr<const GraphPlan> plan_;
  Executor& executor_;
  const GraphOptions options_;
  GraphTally tally_;
  std::vector<NodePace> paces_;
  std::atomic<bool> all_quick_{false};
  SeriesPlan all_nodes_;                 // In the plan's order,
  std::deque<SeriesPlan> single_nodes_;  // and each alone.
  std::vector<std::uint32_t> indices_;   // 0, 1, 2, ...
  GraphSizes sizes_;
  std::atomic<std::uint64_t> seeds_{1};
};

}  // namespace cohort::internal
