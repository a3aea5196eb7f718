#pragma once

#include <cstdint>
#include <span>

#include "graph/node_record.h"

namespace cohort::internal {

/// Quick nodes of a run, as a series on the thread that asked for the run: one of them, or all in an order in which
/// inputs come before those who need them.
///
/// What the ends of several mean for the run is told to it when the last has ended, see BasicGraphEngine::end_here.
template <class Engine>
class QuickNodes final : public NodeTask<SeriesRecord> {
 public:
  QuickNodes(Engine& engine, RunState& run, SeriesPlan& plan, std::span<const std::uint32_t> order, bool with_stop)
      : NodeTask(run, order.front(), with_stop, plan), engine_(engine), order_(order) {}

  [[nodiscard]] RunState& run_state() { return *run_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::span<const std::uint32_t> order() const { return order_; }

  bool run() override {
    index_ = order_[begun() - 1];
    goes_ = engine_.begin_here(*this);
    if (goes_) {
      run_body();
    } else {
      claim_by_body(TaskStatus::kSuccess);
    }
    return true;
  }
  void end_one(Time now) override {
    if (goes_) engine_.end_here(*this, now);
  }
  void end_all() override { engine_.end_all_here(*this); }
  void on_cut() override { engine_.start_rest(*this); }

  std::uint32_t ended = 0;       ///< So many nodes have ended on this thread and have not been counted,
  std::uint32_t last_ended = 0;  ///< this one last.

 private:
  Engine& engine_;
  const std::span<const std::uint32_t> order_;
  bool goes_ = false;
};

}  // namespace cohort::internal
