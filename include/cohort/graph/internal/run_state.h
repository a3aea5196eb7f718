#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/base/function.h"
#include "cohort/base/internal/ref.h"
#include "cohort/base/mutex.h"
#include "cohort/graph/internal/graph_plan.h"
#include "cohort/step/attempts.h"
#include "cohort/step/outcome.h"

namespace cohort::internal {

class GraphEngine;
class RunState;
class TaskRecord;

/// The state of one node in one run. These rules say which thread may write what:
///
/// 1. `state` goes from kOpen to kStarted, to kEnding, to kEnded. A node that does not start goes from kOpen to
///    kEnding. The thread whose compare-and-swap sets kEnding ends the node, alone. It writes outcome, error and value
///    before it stores kEnded. Other threads read them only after kEnded.
/// 2. `waits` counts the inputs that have not ended. The thread that decrements it to 0 starts the node. If several
///    threads try to, the thread that takes `state` from kOpen to kStarted does it.
/// 3. The attempt that claimed its record makes the value. An attempt that is past its time-out may still make it while
///    other threads read. They read `has_value`, which was written before kEnded. Only the code that destroys the value
///    reads `made`.
/// 4. `record` is a counted reference. It is stored without a lock and dropped with RunState::mutex held.
struct NodeSlot {
  enum class State : std::uint8_t { kOpen, kStarted, kEnding, kEnded };
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  std::atomic<std::uint32_t> waits{0};
  std::atomic<std::uint32_t> needed{0};  ///< How many children (and the caller) may still need the value.
  std::atomic<State> state{State::kOpen};
  std::atomic<bool> unwanted{false};  ///< The node was cancelled or is being cancelled.
  std::atomic<bool> made{false};
  bool has_value = false;
  bool is_fallback = false;  ///< The value comes from GraphNode::otherwise().
  Outcome outcome = Outcome::kOk;
  std::atomic<std::uint32_t> last_input{kNone};  ///< The input that ended last.
  std::atomic<std::uint32_t> attempt_count{0};
  std::atomic<Time::rep> ready_at{0};
  std::atomic<Time::rep> started_at{0};  ///< When the first attempt began.
  std::atomic<Time::rep> busy{0};        ///< The sum of the durations of all attempts.
  Time ended_at{};
  Attempts attempts;  ///< Belongs to the thread that runs the node.
  std::unique_ptr<Error> error;
  std::atomic<TaskRecord*> record{nullptr};  ///< The task record of the current attempt.
};

/// One run of a graph. The caller and the records of the nodes share its ownership, so a body that outlives its
/// time-out finds its inputs alive.
class RunState final : public RunValues {
 public:
  static Ref<RunState> make(std::shared_ptr<GraphEngine> engine, std::size_t request_size,
                            std::size_t request_alignment);

  void ref(std::uint32_t count = 1) { references_.fetch_add(count, std::memory_order_relaxed); }
  void unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
  }

  [[nodiscard]] const GraphPlan& plan() const { return *plan_; }
  [[nodiscard]] GraphEngine& engine() const { return *engine_; }
  [[nodiscard]] NodeSlot& slot(std::uint32_t index) { return slots_[index]; }
  [[nodiscard]] const NodeSlot& slot(std::uint32_t index) const { return slots_[index]; }
  [[nodiscard]] void* request_place() { return request_; }
  void set_request_destructor(void (*destructor)(void*)) { destroy_request_ = destructor; }
  [[nodiscard]] void* value_place(std::uint32_t index) { return values_ + plan_->nodes[index].value_offset; }

  [[nodiscard]] const void* request() const override { return request_; }
  [[nodiscard]] const void* value(std::uint32_t index) const override {
    return slots_[index].has_value ? values_ + plan_->nodes[index].value_offset : nullptr;
  }

  [[nodiscard]] bool has_ended(std::uint32_t index) const {
    return slots_[index].state.load(std::memory_order_acquire) == NodeSlot::State::kEnded;
  }
  /// The chain of nodes that decided the end of the run, in the order of their ends. Each node is the input of the next
  /// one that ended last.
  [[nodiscard]] std::vector<std::uint32_t> critical_path() const;

  Time begun_at{};
  Time ended_at{};
  Time deadline = Time::max();
  bool awaited = false;                   ///< A task started the run, so its nodes are awaited, see Scheduler.
  std::atomic<bool> cancelled{false};     ///< The caller cancelled the run.
  std::atomic<std::uint32_t> pending{0};  ///< The number of nodes that have not ended.
  std::uint32_t last_ended = 0;           ///< The node whose end ended the run.

  /// True if every node has ended and all results are written.
  [[nodiscard]] bool is_done() const { return done_early.load(std::memory_order_acquire); }
  /// Calls `call` when the run has ended, on the thread that ends it. False if the run has already ended; `call` is
  /// then not called.
  bool when_done(Function<void()> call) COHORT_EXCLUDES(mutex);

  // Guards the end of the run, and the dropping of NodeSlot::record.
  Mutex mutex;
  bool done COHORT_GUARDED_BY(mutex) = false;
  std::atomic<bool> done_early{false};  ///< A copy of `done`, readable without the lock.
  Function<void()> on_done COHORT_GUARDED_BY(mutex);

 private:
  RunState() = default;
  ~RunState();
  static void destroy(RunState* run);

  std::atomic<std::uint32_t> references_{1};
  std::shared_ptr<GraphEngine> engine_;
  const GraphPlan* plan_ = nullptr;
  NodeSlot* slots_ = nullptr;
  std::byte* values_ = nullptr;
  void* request_ = nullptr;
  void (*destroy_request_)(void*) = nullptr;
  std::size_t block_size_ = 0;
  std::size_t block_alignment_ = 0;
};

}  // namespace cohort::internal
