#pragma once

// What the engine of graphs collects while nodes end on a thread.

#include <cstdint>
#include <vector>

#include "cohort/graph/internal/run_state.h"
#include "cohort/task/internal/task_record.h"
#include "graph/ready_nodes.h"

namespace cohort::internal {

/// Production has no planted bugs. Tests of the tests plant one at a time.
struct NoGraphFaults {
  static constexpr bool kStartTwice = false;              ///< The last but one input starts a node too.
  static constexpr bool kRequireOptional = false;         ///< An optional input that has no value fails the node.
  static constexpr bool kKeepPermitAfterTimeout = false;  ///< A node that is out of time keeps its permit.
};

// An end that follows from another one.
struct PendingEnd {
  std::uint32_t index;
  NodeSlot::State from;
  Outcome outcome;
  Error error;
};
struct GraphWalk {
  std::vector<PendingEnd> ends;
};
struct GraphAttemptEnd {
  TaskRecord& record;
  TaskStatus status;
  Time at;
};

// Nodes that may start, collected while others end on this thread. The outermost one of a run starts them, so that a
// long chain of lightweight nodes is a loop and not a recursion.
struct GraphStarter {
  /// `time` is now, if it has just been read.
  explicit GraphStarter(RunState& of, Time time = Time::min())
      : run(of), outer(current), outermost(outer == nullptr || &outer->run != &of), now(time) {
    if (outermost) current = this;
  }
  ~GraphStarter() {
    if (outermost) current = outer;
  }
  GraphStarter(const GraphStarter&) = delete;
  GraphStarter& operator=(const GraphStarter&) = delete;

  RunState& run;
  GraphStarter* outer;
  bool outermost;
  Time now;
  ReadyNodes ready;
  static inline thread_local GraphStarter* current = nullptr;
};

}  // namespace cohort::internal
