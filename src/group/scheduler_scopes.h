#pragma once

// Part of Scheduler: what frames an event.

#include <algorithm>

#include "group/scheduler.h"

namespace cohort::internal {

// Sets the time of an event and, at its end, wakes a worker if one is needed.
template <class Faults>
class Scheduler<Faults>::EventScope {
 public:
  EventScope(Scheduler& scheduler, Time now) : scheduler_(scheduler) {
    scheduler_.now_ = std::max(scheduler_.now_, now);
  }
  ~EventScope() { scheduler_.wake_if_needed(); }
  EventScope(const EventScope&) = delete;
  EventScope& operator=(const EventScope&) = delete;

 private:
  Scheduler& scheduler_;
};

// While it lives, what follows from an event is the caller's to do: it is his own call.
template <class Faults>
class Scheduler<Faults>::OwnCall {
 public:
  explicit OwnCall(Scheduler& scheduler) : scheduler_(scheduler) { scheduler_.own_call_ = true; }
  ~OwnCall() { scheduler_.own_call_ = false; }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

 private:
  Scheduler& scheduler_;
};

}  // namespace cohort::internal
