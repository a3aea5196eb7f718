#pragma once

#include <optional>
#include <stop_token>
#include <utility>

#include "cohort/graph/internal/graph_engine.h"
#include "cohort/task/internal/executor_access.h"
#include "cohort/task/internal/series_record.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// A record that runs bodies of nodes: where they leave their ends.
template <class Record>
class NodeTask : public Record, public NodeEnd {
 public:
  void* claim() final { return this->claim_by_body(TaskStatus::kSuccess) ? run_->value_place(index_) : nullptr; }
  void made() final { run_->slot(index_).made.store(true, std::memory_order_relaxed); }
  void not_made(Error error) final {
    this->set_error(std::move(error));
    this->reclaim_by_body(TaskStatus::kFailed);
  }
  void fail(Error error) final {
    const bool cancelled = error.code == ErrorCode::kCancelled;
    if (this->claim_by_body(cancelled ? TaskStatus::kCancelled : TaskStatus::kFailed)) {
      this->set_error(std::move(error));
    }
  }

 protected:
  template <class... Arguments>
  NodeTask(RunState& run, std::uint32_t index, Arguments&&... arguments)
      : Record(std::forward<Arguments>(arguments)...), run_(run), index_(index) {
    ExecutorAccess::set_home(run.engine().executor(), *this);
  }

  [[nodiscard]] const GraphPlan::Node& node() const { return run_->plan().nodes[index_]; }
  [[nodiscard]] const NodeBody& body() const { return *node().spec->body; }
  void set_context() {
    const Attempts& attempts = run_->slot(index_).attempts;
    context_.deadline = attempts.deadline();
    context_.attempt = attempts.number();
    context_.provider = nullptr;
  }
  void run_body() {
    set_context();
    body().run(*run_, context_, *this);
  }

  const Ref<RunState> run_;
  std::uint32_t index_;
  NodeContext context_;
};

/// One attempt of one node, as a task of its group.
class NodeRecord final : public NodeTask<TaskRecord> {
 public:
  /// Timed: the executor sees to its deadline.
  NodeRecord(RunState& run, std::uint32_t index, bool is_timed);

  [[nodiscard]] std::uint32_t index() const { return index_; }

  bool run() override;
  [[nodiscard]] bool is_coroutine() const override { return node().is_coroutine; }

 protected:
  void on_stop() override {
    if (stop_) stop_->request_stop();
  }
  void on_end() override;

 private:
  bool go_on();

  bool begun_ = false;
  std::optional<std::stop_source> stop_;  // For bodies that take a context.
  Task<void> coroutine_;
};

}  // namespace cohort::internal
