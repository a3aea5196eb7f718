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

/// One node of one run.
///
/// 1. `state` goes from open to started, to ending, to ended; a node that never runs goes from open to ending at once.
///    Who takes it to ending by a compare-and-swap ends it, alone, and writes outcome, error and value before it stores
///    ended. Others read those of nodes that have ended.
/// 2. `waits` counts the inputs that have not ended. Who takes it to 0 starts the node. However many try: who takes
///    `state` from open to started does it.
/// 3. A value is made by the attempt that claimed its record. One that nobody waits for any more may still make it
/// while
///    others read: they look at `has_value`, which was written before the node ended, and only the destructor at
///    `made`.
/// 4. `record` is a counted reference. It is put there without a lock, and dropped with RunState::mutex held.
struct NodeSlot {
  enum class State : std::uint8_t { kOpen, kStarted, kEnding, kEnded };
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  std::atomic<std::uint32_t> waits{0};
  std::atomic<std::uint32_t> needed{0};  ///< Those who may still want it.
  std::atomic<State> state{State::kOpen};
  std::atomic<bool> unwanted{false};  ///< It has been, or is being, cancelled.
  std::atomic<bool> made{false};
  bool has_value = false;
  bool is_fallback = false;  ///< Its value is that of otherwise().
  Outcome outcome = Outcome::kOk;
  std::atomic<std::uint32_t> last_input{kNone};  ///< Whose end let it start.
  std::atomic<std::uint32_t> attempt_count{0};
  std::atomic<Time::rep> ready_at{0};
  std::atomic<Time::rep> started_at{0};  ///< Of the first attempt.
  std::atomic<Time::rep> busy{0};        ///< How long its attempts ran, all together.
  Time ended_at{};
  Attempts attempts;  ///< Of who runs it.
  std::unique_ptr<Error> error;
  std::atomic<TaskRecord*> record{nullptr};  ///< Of the current attempt.
};

/// One run of a graph: shared by who asked for it and by the records of its nodes, so that a body that comes late finds
/// its inputs alive.
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
  /// The nodes whose ends followed one another up to the last, the first one first.
  [[nodiscard]] std::vector<std::uint32_t> critical_path() const;

  Time begun_at{};
  Time ended_at{};
  Time deadline = Time::max();
  bool awaited = false;                   ///< A task asked for it, and waits: its nodes are awaited, see Scheduler.
  std::atomic<bool> cancelled{false};     ///< By its caller.
  std::atomic<std::uint32_t> pending{0};  ///< Nodes that have not ended.
  std::uint32_t last_ended = 0;           ///< The node that ended the run.

  /// Every node has ended, and all that follows from that has been written.
  [[nodiscard]] bool is_done() const { return done_early.load(std::memory_order_acquire); }
  /// Calls `call` when the run has ended, on the thread that ends it; false: it has already, and the call is not made.
  bool when_done(Function<void()> call) COHORT_EXCLUDES(mutex);

  // Guards the end of the run against those who wait for it, and records against being dropped.
  Mutex mutex;
  bool done COHORT_GUARDED_BY(mutex) = false;
  std::atomic<bool> done_early{false};  ///< The same, for who does not want to wait.
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
