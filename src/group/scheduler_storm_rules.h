#pragma once

// Part of Storm: what must hold after every event. Test code only.

#include "group/scheduler_storm.h"

namespace cohort::internal {

template <class Faults>
void Storm<Faults>::check() {
  const ExecutorStats stats = scheduler_.stats();
  if (stats.counters.submitted + taken_back() != tasks_.size()) broken_ = "a submitted task was not counted";
  if (stats.counters.settled_total() >
      count([](const StormTask& task) { return task.settled != 0 || task.is_claimed(); })) {
    broken_ = "more settled by the counters than were";
  }
  for (int g = 0; g < kGroups; ++g) {
    Model& model = models_[static_cast<std::size_t>(g)];
    if (model.still_out != 0) model.still_out = std::min(model.still_out, permits_out(g));
  }
  check_nobody_is_forgotten();
  if (!broken_.empty() && broken_.find(" at ") == std::string::npos) {
    broken_ += " at " + std::to_string((now_ - start_).count()) + " ns";
  }
}

// With a worker idle, and none on its way, nothing may be able to run.
template <class Faults>
void Storm<Faults>::check_nobody_is_forgotten() {
  bool idle = false;
  for (const Worker& worker : workers_) {
    if (worker.guest) continue;
    if (worker.state == Worker::kLooking) return;
    idle = idle || worker.state == Worker::kIdle;
  }
  if (!idle) return;
  if (scheduler_.chores_wait_since() != Time::max()) broken_ = "chores wait, a worker is idle, and nobody is woken";
  for (const auto& task : tasks_) {
    if (could_run(*task)) return fail(*task, "could run, a worker is idle, and nobody is woken");
  }
}

template <class Faults>
bool Storm<Faults>::could_run(const StormTask& task) const {
  if (task.phase == Phase::kContinuing) return true;
  const Model& model = models_[static_cast<std::size_t>(task.in_group)];
  const Group* const group = scheduler_.group_of(key(task.in_group));
  if (group == nullptr || scheduler_.global_running() >= global_limit_ || group->running >= model.concurrency)
    return false;
  if (scheduler_.global_running() != permits_out() || group->running != permits_out(task.in_group)) return true;
  if (task.phase == Phase::kResuming) return true;
  if (group->jobs != nullptr) return false;
  if (task.phase != Phase::kWaiting || model.paused || model.stopped || model.rated) return false;
  if (group->overrunning >= group->limits->max_overrunning) return false;
  return task.was_awaited ||
         (group->own < model.in_flight && group->parked < max_parked_ / 4 && scheduler_.stats().parked < max_parked_);
}

// What turns and sleeping bodies hold: one permit of layer 1 a turn, one of layer 3 a group in it.
template <class Faults>
std::uint32_t Storm<Faults>::permits_out() const {
  std::uint32_t out = count([](const StormTask& task) { return task.holds_global; });
  for (const Worker& worker : workers_) out += worker.turn.out && worker.turn.global ? 1 : 0;
  return out;
}
template <class Faults>
std::uint32_t Storm<Faults>::permits_out(int group) const {
  std::uint32_t out = count([&](const StormTask& task) { return task.in_group == group && task.holds_concurrency; });
  for (const Worker& worker : workers_) {
    for (std::uint32_t s = 0; worker.turn.out && s < worker.turn.segment_count; ++s) {
      const Turn::Segment& segment = worker.turn.segments[s];
      out += segment.concurrency && std::string_view(segment.group->key) == key(group) ? 1 : 0;
    }
  }
  return out;
}

}  // namespace cohort::internal
