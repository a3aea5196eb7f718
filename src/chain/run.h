#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "chain/local_files.h"
#include "cohort/base/mutex.h"
#include "cohort/base/random.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// A claimed task under way on this node, from its claim until it ends or is given back.
///
/// Owned by its ticket. What is guarded by its mutex is also read by the tick and by whoever stops it.
struct Run {
  explicit Run(ChainTask claimed) : task(std::move(claimed)), claim{task.id(), task.owner, task.epoch} {}

  ChainTask task;  ///< As the last write left it, as far as this node can tell.
  const Claim claim;
  std::uint64_t writes = 0;
  LocalFile file;
  bool is_suspect = false;
  bool overran = false;           ///< The last body did not end in time;
  bool ignored_its_stop = false;  ///< not soon after it was asked to stop either;
  bool was_abandoned = false;     ///< and not in the time of grace.
  Duration last_ran{};            ///< Of the last body.
  Duration delay{};               ///< Given back, it is not to be claimed before.

  Mutex mutex;
  std::stop_source stop COHORT_GUARDED_BY(mutex);
  bool in_gate COHORT_GUARDED_BY(mutex) = false;
  bool is_alone COHORT_GUARDED_BY(mutex) = false;              ///< There.
  bool in_body COHORT_GUARDED_BY(mutex) = false;               ///< A body is under way, or the fetch before it.
  std::shared_ptr<StepContext> step COHORT_GUARDED_BY(mutex);  ///< Of that body.
  Time body_until COHORT_GUARDED_BY(mutex){};                  ///< Its time-out.
  /// Its body did not end: the task has been failed without it.
  bool abandoned COHORT_GUARDED_BY(mutex) = false;

  void request_stop() {
    std::stop_source source(std::nostopstate);
    {
      MutexLock lock(mutex);
      source = stop;
    }
    source.request_stop();  // NOLINT(clang-analyzer-cplusplus.Move): it was assigned anew.
  }
  [[nodiscard]] bool stop_requested() {
    MutexLock lock(mutex);
    return stop.stop_requested();
  }
  [[nodiscard]] std::stop_token stop_token() {
    MutexLock lock(mutex);
    return stop.get_token();
  }
  void begin_body(Time until) {
    MutexLock lock(mutex);
    in_body = true;
    body_until = until;
  }
  void set_step(std::shared_ptr<StepContext> context) {
    MutexLock lock(mutex);
    step = std::move(context);
  }
  /// True: the task has been failed without it.
  [[nodiscard]] bool end_body() {
    MutexLock lock(mutex);
    in_body = false;
    step.reset();
    return abandoned;
  }
  /// True, once: a body is under way whose time was over at `time`.
  [[nodiscard]] bool abandon_after(Time time) {
    MutexLock lock(mutex);
    if (!in_body || abandoned || body_until > time) return false;
    return abandoned = true;
  }
  void enter_gate(bool alone) {
    MutexLock lock(mutex);
    in_gate = true;
    is_alone = alone;
  }
  [[nodiscard]] bool is_in_gate() {
    MutexLock lock(mutex);
    return in_gate;
  }
  [[nodiscard]] bool is_there_alone() {
    MutexLock lock(mutex);
    return in_gate && is_alone;
  }
  /// Who gets an answer leaves for it, with that; so only one does.
  [[nodiscard]] std::optional<bool> take_out_of_gate() {
    MutexLock lock(mutex);
    if (!std::exchange(in_gate, false)) return std::nullopt;
    return std::exchange(is_alone, false);
  }
  [[nodiscard]] std::optional<StepContext::Report> take_report() {
    MutexLock lock(mutex);
    return step ? step->take_report() : std::nullopt;
  }
};

}  // namespace cohort
