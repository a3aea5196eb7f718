#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>

#include "cohort/base/mutex.h"
#include "graph/node_record.h"

namespace cohort::internal {

/// Quick nodes of a run, as a series on the thread that asked for the run: one of them that has been taken, or all in
/// an order in which inputs come before those who need them.
///
/// What the ends of several mean for the run is told to it when the last has ended, see BasicGraphEngine::end_here.
template <class Engine>
class QuickNodes final : public NodeTask<SeriesRecord> {
 public:
  QuickNodes(Engine& engine, RunState& run, SeriesPlan& plan, std::span<const std::uint32_t> order)
      : NodeTask(run, order.front(), plan), engine_(engine), order_(order) {}

  [[nodiscard]] RunState& run_state() { return *run_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::span<const std::uint32_t> order() const { return order_; }
  [[nodiscard]] bool is_alone() const { return order_.size() == 1; }

  bool run() override {
    index_ = order_[begun() - 1];
    goes_ = engine_.begin_here(*this);
    if (goes_) {
      if (node().takes_context) renew_stop();
      run_body();
    } else {
      claim_by_body(TaskStatus::kSuccess);
    }
    return true;
  }
  void end_one(Time now) override {
    if (goes_) engine_.end_here(*this, now);
  }
  void before_end() override { engine_.start_rest_at_end(*this); }
  void end_all() override { engine_.end_all_here(*this); }
  void on_cut() override { engine_.start_rest(*this); }

  std::uint32_t ended = 0;       ///< So many nodes have ended on this thread and have not been counted,
  std::uint32_t last_ended = 0;  ///< this one last.

 protected:
  // Only the last one is ever asked to stop: Scheduler::end_work cuts first, and those who cancel know only of one that
  // is alone. Whoever asks has said so before he comes here, and the node looks once its source is in place: so one of
  // them sees the other.
  void on_stop() override {
    std::optional<std::stop_source> current;
    {
      MutexLock lock(stop_mutex_);
      current = stop_;
    }
    if (current) current->request_stop();
  }

 private:
  // Each has its own: a token that an earlier one has kept is not to tell of a later one.
  void renew_stop() {
    std::stop_source source;
    context_.stop = source.get_token();
    {
      MutexLock lock(stop_mutex_);
      stop_ = source;
    }
    if (stop_requested()) source.request_stop();
  }

  Engine& engine_;
  const std::span<const std::uint32_t> order_;
  bool goes_ = false;
  Mutex stop_mutex_;
  std::optional<std::stop_source> stop_ COHORT_GUARDED_BY(stop_mutex_);
};

}  // namespace cohort::internal
