#pragma once

#include <algorithm>
#include <cmath>
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
  bool in_gate = false;
  bool is_alone = false;
  bool is_suspect = false;
  bool overran = false;        ///< The last body did not end in time;
  bool was_abandoned = false;  ///< and not in the time of grace either.
  Duration last_ran{};         ///< Of the last body.
  Duration delay{};            ///< Given back, it is not to be claimed before.

  Mutex mutex;
  std::stop_source stop COHORT_GUARDED_BY(mutex);
  std::shared_ptr<StepContext> step COHORT_GUARDED_BY(mutex);  ///< While a body is under way.
  Time body_until COHORT_GUARDED_BY(mutex){};                  ///< Its time-out.
  /// Its body did not end: the task has been failed without it.
  bool abandoned COHORT_GUARDED_BY(mutex) = false;

  void request_stop() {
    std::stop_source source(std::nostopstate);
    {
      MutexLock lock(mutex);
      source = stop;
    }
    source.request_stop();
  }
  [[nodiscard]] bool stop_requested() {
    MutexLock lock(mutex);
    return stop.stop_requested();
  }
  [[nodiscard]] std::stop_token stop_token() {
    MutexLock lock(mutex);
    return stop.get_token();
  }
  void begin_body(std::shared_ptr<StepContext> context, Time until) {
    MutexLock lock(mutex);
    step = std::move(context);
    body_until = until;
  }
  /// True: the task has been failed without it.
  [[nodiscard]] bool end_body() {
    MutexLock lock(mutex);
    step.reset();
    return abandoned;
  }
  /// True, once: a body is under way whose time was over at `time`.
  [[nodiscard]] bool abandon_after(Time time) {
    MutexLock lock(mutex);
    if (!step || abandoned || body_until > time) return false;
    return abandoned = true;
  }
  [[nodiscard]] std::optional<StepContext::Report> take_report() {
    MutexLock lock(mutex);
    return step ? step->take_report() : std::nullopt;
  }
};

/// How long to wait before attempt number `failures` + 1.
[[nodiscard]] inline Duration backoff_of(const RetryPolicy& policy, std::uint32_t failures, Random& random) {
  const double grown = static_cast<double>(policy.backoff.count()) *
                       std::pow(std::max(1.0, policy.multiplier), static_cast<double>(failures > 0 ? failures - 1 : 0));
  const double capped = std::min(grown, static_cast<double>(policy.max_backoff.count()));
  return Duration(static_cast<std::int64_t>(capped * (1 - std::clamp(policy.jitter, 0.0, 1.0) * random.unit())));
}

}  // namespace cohort
