#pragma once

// The body of the engine, for graph_engine.cc and for tests that plant bugs in it.

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/here_turns.h"
#include "cohort/task/internal/task_record.h"
#include "graph/graph_sizes.h"
#include "graph/graph_walk.h"
#include "graph/node_paces.h"
#include "graph/node_record.h"
#include "graph/node_tally.h"

namespace cohort::internal {

template <class Faults = NoGraphFaults>
class BasicGraphEngine final : public GraphEngine {
 public:
  BasicGraphEngine(std::shared_ptr<const GraphPlan> plan, Executor& executor, GraphOptions options)
      : plan_(std::move(plan)),
        executor_(executor),
        options_(std::move(options)),
        tally_(*plan_),
        paces_(*plan_),
        sizes_(*plan_, executor_, options_) {}

  [[nodiscard]] const GraphPlan& plan() const override { return *plan_; }
  [[nodiscard]] Executor& executor() const override { return executor_; }
  [[nodiscard]] const GraphOptions& options() const override { return options_; }

  void start(RunState& run, const RunOptions& run_options) override {
    run.begun_at = executor_.clock().now();
    run.deadline = std::min(saturating_add(run.begun_at, options_.timeout), run_options.deadline.value_or(Time::max()));
    run.awaited = current_task() != nullptr;
    Starter starter(run, run.begun_at);
    for (const std::uint32_t index : plan_->order) {
      if (plan_->nodes[index].spec->inputs.empty()) starter.ready.push(index);
    }
    start_ready(starter);
  }

  void cancel(RunState& run) override {
    if (run.is_done()) return;
    const Ref<RunState> alive(run);
    run.cancelled.store(true, std::memory_order_seq_cst);
    Starter starter(run);
    Walk walk;
    for (const std::uint32_t index : plan_->order) cancel_node(run, index, walk);
    finish_walk(run, walk);
    start_ready(starter);
  }

  bool begin(RunState& run, NodeRecord& record) override {
    NodeSlot& slot = run.slot(record.index());
    if (slot.state.load(std::memory_order_acquire) != State::kStarted) return false;  // It has been cancelled,
    if (slot.unwanted.load(std::memory_order_seq_cst)) return false;                  // or is about to be.
    if (slot.attempts.number() == 1) {
      slot.started_at.store(record.started_at.time_since_epoch().count(), std::memory_order_relaxed);
    }
    slot.attempt_count.store(slot.attempts.number(), std::memory_order_relaxed);
    return true;
  }

  void on_attempt_end(RunState& run, NodeRecord& record) override {
    Starter starter(run, record.ended_at);  // (The record keeps the run.)
    const std::uint32_t index = record.index();
    if (run.slot(index).state.load(std::memory_order_acquire) == State::kStarted) {
      const TaskStatus status = record.status();
      const bool has_begun = record.has_begun();
      paces_.learn_wait(index, (has_begun ? record.started_at : record.ended_at) - record.submitted_at);
      if (has_begun) add_busy(run.slot(index), record.ended_at - record.started_at);
      if (status == TaskStatus::kSuccess && is_in_time(run, record)) {
        paces_.learn_end(index, since_ready(run, index, record.ended_at));
        end_well(run, index, record.ended_at);
      } else {
        // It takes longer than it was given, nobody knows how much. Without that only the quick ones would count, and
        // the slower ones would be given less and less.
        const bool is_late = status == TaskStatus::kTimedOutRunning || status == TaskStatus::kTimedOutQueued;
        if (is_late) paces_.learn_end(index, 2 * since_ready(run, index, record.ended_at));
        Walk walk;
        conclude(run, index, {record, status, record.ended_at}, walk);
        finish_walk(run, walk);
      }
    }
    start_ready(starter);
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
  using AttemptEnd = GraphAttemptEnd;
  using Starter = GraphStarter;
  using Walk = GraphWalk;

  enum class Coming { kNew, kAgain };  // Another attempt.

  // ---- starting

  void start_ready(Starter& starter) {
    if (!starter.outermost) return;
    HereTurns here(executor_);
    while (!starter.ready.empty()) {
      // Those for workers first: they need not wait for what runs here.
      const std::uint32_t index =
          starter.ready.take([&](std::uint32_t each) { return !plan_->nodes[each].spec->lightweight; });
      Walk walk;
      const bool goes = take(starter.run, index) && is_wanted(starter.run, index, walk);
      finish_walk(starter.run, walk);
      if (plan_->nodes[index].spec->when) {  // Which may have taken its time.
        starter.now = Time::min();
        here.forget_time();
      }
      if (!goes || (plan_->nodes[index].spec->lightweight && run_inline(starter, index, here))) continue;
      here.end();  // It may have to wait for room in a queue.
      start_attempt(starter.run, index, Coming::kNew);
      starter.now = Time::min();
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
    slot.attempts = Attempts(spec.step, ready, deadline_of(run, index, ready));
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

  // A default is of use only while those who need it have time left: for them up to half of what is left is kept.
  [[nodiscard]] Time deadline_of(const RunState& run, std::uint32_t index, Time ready) const {
    const NodeSpec& spec = *plan_->nodes[index].spec;
    if (!spec.fallback || spec.has_timeout || plan_->nodes[index].children.empty()) return run.deadline;
    const Duration half = std::max(run.deadline - ready, Duration::zero()) / 2;
    return run.deadline - std::min(half, paces_.rest_after(index).value_or(half));
  }

  // With a permit of its group, if one is free; else it goes the way of all others.
  bool run_inline(Starter& starter, std::uint32_t index, HereTurns& here) {
    RunState& run = starter.run;
    const Time last = std::max(starter.now, here.last_end());
    const Time now = last != Time::min() ? last : executor_.clock().now();
    if (now >= run.slot(index).attempts.deadline()) return false;
    // Nobody can cancel it: it is quick, and has no record in its slot.
    TaskRef record = TaskRef::adopt(new NodeRecord(run, index, NodeRecord::Kind::kInline));
    return here.run(record, now);
  }

  void start_attempt(RunState& run, std::uint32_t index, Coming coming) {
    NodeSlot& slot = run.slot(index);
    const Duration left = slot.attempts.deadline() - executor_.clock().now();
    const Duration wait = expected_wait(index, left);
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
    const auto kind = Faults::kKeepPermitAfterTimeout ? NodeRecord::Kind::kUntimed : NodeRecord::Kind::kTimed;
    const auto record = Ref<NodeRecord>::adopt(new NodeRecord(run, index, kind));
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
    if (paces_.queued(index) * 10 < left) return Duration(0);
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

  // With earlier attempts, and the waits between them.
  static Duration since_ready(const RunState& run, std::uint32_t index, Time end) {
    return end - Time(Duration(run.slot(index).ready_at.load(std::memory_order_relaxed)));
  }

  // (The executor has seen to a timed one.)
  static bool is_in_time(const RunState& run, const NodeRecord& record) {
    return record.timed || record.ended_at <= run.slot(record.index()).attempts.deadline();
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
  void end_well(RunState& run, std::uint32_t index, Time now) {
    NodeSlot& slot = run.slot(index);
    State seen = State::kStarted;
    if (!slot.state.compare_exchange_strong(seen, State::kEnding, std::memory_order_acq_rel)) return;
    slot.outcome = Outcome::kOk;
    slot.has_value = true;
    slot.ended_at = now;
    slot.state.store(State::kEnded, std::memory_order_release);
    for (const GraphPlan::Node::Child& child : plan_->nodes[index].children) count_down(run, index, child.node);
    count_end(run, index, now);
  }

  // Without, unless it has a fallback.
  void end(RunState& run, std::uint32_t index, const State from, Outcome outcome, Error error, Time now, Walk& walk) {
    const GraphPlan::Node& node = plan_->nodes[index];
    NodeSlot& slot = run.slot(index);
    State seen = from;
    if (!slot.state.compare_exchange_strong(seen, State::kEnding, std::memory_order_acq_rel)) return;
    const bool cancelled = run.cancelled.load(std::memory_order_seq_cst);
    if (cancelled && from == State::kOpen) {
      outcome = Outcome::kCancelled;
      error = {ErrorCode::kCancelled, "its run was cancelled"};
    }
    slot.outcome = outcome;
    slot.has_value = false;
    slot.ended_at = now;
    slot.error = std::make_unique<Error>(std::move(error));
    if (!cancelled) fall_back(run, node, slot);
    const bool has_value = slot.has_value;
    slot.state.store(State::kEnded, std::memory_order_release);

    for (const GraphPlan::Node::Child& child : node.children) {
      if (!has_value && (!child.optional || Faults::kRequireOptional)) fail_child(slot, node, child.node, walk);
      count_down(run, index, child.node);
    }
    if (from == State::kOpen) {
      for (const NodeSpec::Input& input : node.spec->inputs) {
        if (run.slot(input.node).needed.fetch_sub(1, std::memory_order_acq_rel) == 1)
          cancel_node(run, input.node, walk);
      }
    }
    count_end(run, index, now);
  }

  void count_end(RunState& run, std::uint32_t index, Time now) {
    if (run.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(run, index, now);
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
    slot.has_value = slot.is_fallback = true;
    if (slot.outcome == Outcome::kSkipped) {
      slot.error->message += "; its default stands in";
    } else {
      slot.outcome = Outcome::kFallback;
    }
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

  // One input less to wait for.
  void count_down(RunState& run, std::uint32_t index, std::uint32_t child) {
    NodeSlot& slot = run.slot(child);
    std::uint32_t before = slot.waits.load(std::memory_order_acquire);
    if (before == 1) {
      slot.waits.store(0, std::memory_order_release);  // Every input counts once: there is nobody else.
    } else {
      before = slot.waits.fetch_sub(1, std::memory_order_acq_rel);
    }
    if (before == 1) slot.last_input.store(index, std::memory_order_relaxed);
    const bool starts = before == 1 || (Faults::kStartTwice && before == 2);
    if (!starts) return;
    if (slot.state.load(std::memory_order_acquire) == State::kOpen || Faults::kStartTwice) {
      Starter::current->ready.push(child);
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
    if (record) ExecutorAccess::cancel(*record);
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

  const std::shared_ptr<const GraphPlan> plan_;
  Executor& executor_;
  const GraphOptions options_;
  GraphTally tally_;
  NodePaces paces_;
  GraphSizes sizes_;
  std::atomic<std::uint64_t> seeds_{1};
};

}  // namespace cohort::internal
