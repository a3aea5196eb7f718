#pragma once

#include <optional>
#include <stop_token>

#include "cohort/graph/internal/graph_engine.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// One attempt of one node, as a task of its group.
class NodeRecord final : public TaskRecord, public NodeEnd {
 public:
  enum class Kind : std::uint8_t {
    kTimed,    ///< The executor sees to its deadline.
    kUntimed,  ///< Nobody does.
    kInline,   ///< It runs on the thread that made it, which keeps the run.
  };
  NodeRecord(RunState& run, std::uint32_t index, Kind kind);

  [[nodiscard]] std::uint32_t index() const { return index_; }

  bool run() override;
  [[nodiscard]] bool is_coroutine() const override { return node().is_coroutine; }

  void* claim() override { return claim_by_body(TaskStatus::kSuccess) ? run_->value_place(index_) : nullptr; }
  void made() override { run_->slot(index_).made.store(true, std::memory_order_relaxed); }
  void not_made(Error error) override;
  void fail(Error error) override;

 protected:
  void on_stop() override {
    if (stop_) stop_->request_stop();
  }
  void on_end() override { run_->engine().on_attempt_end(*run_, *this); }

 private:
  [[nodiscard]] const GraphPlan::Node& node() const { return run_->plan().nodes[index_]; }
  [[nodiscard]] const NodeBody& body() const { return *node().spec->body; }
  bool go_on();

  const Ref<RunState> kept_;  // Null: by the thread that runs it.
  RunState* const run_;
  const std::uint32_t index_;
  NodeContext context_;
  bool begun_ = false;
  std::optional<std::stop_source> stop_;  // For bodies that take a context, or call a pool.
  Task<void> coroutine_;
};

}  // namespace cohort::internal
