#pragma once

#include <optional>
#include <stop_token>
#include <utility>

#include "cohort/graph/internal/graph_engine.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// One attempt of one node, as a task of its group.
class NodeRecord final : public TaskRecord, public NodeEnd {
 public:
  enum class Kind : std::uint8_t {
    kTimed,  ///< The executor sees to its deadline.
    kQuick,  ///< It is expected to be short; its deadline is looked at when it has ended.
    kAhead,  ///< The same, and handed in before its inputs have ended.
  };

  NodeRecord(Ref<RunState> run, std::uint32_t index, Kind kind);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool has_run() const { return begun_; }

  bool run() override;
  [[nodiscard]] bool is_coroutine() const override { return node().is_coroutine; }

  bool claim() override { return claim_by_body(TaskStatus::kSuccess); }
  void* place() override { return run_->value_place(index_); }
  void made() override { run_->slot(index_).made.store(true, std::memory_order_relaxed); }
  void not_made(Error error) override {
    set_error(std::move(error));
    reclaim_by_body(TaskStatus::kFailed);
  }
  void fail(Error error) override {
    const bool cancelled = error.code == ErrorCode::kCancelled;
    if (claim_by_body(cancelled ? TaskStatus::kCancelled : TaskStatus::kFailed)) set_error(std::move(error));
  }

 protected:
  void on_stop() override;
  void on_end() override;

 private:
  [[nodiscard]] const GraphPlan::Node& node() const { return run_->plan().nodes[index_]; }
  [[nodiscard]] const NodeBody& body() const { return *node().spec->body; }
  bool go_on();

  Ref<RunState> run_;
  const std::uint32_t index_;
  const Kind kind_;
  bool begun_ = false;
  bool declined_ = false;
  NodeContext context_;
  std::optional<std::stop_source> stop_;  // For bodies that take a context.
  Task<void> coroutine_;
};

}  // namespace cohort::internal
