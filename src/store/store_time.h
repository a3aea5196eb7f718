#pragma once

#include "cohort/base/wall_clock.h"

namespace cohort {

/// The time by the two clocks that a durable task is measured with.
///
/// `wall` is the time of day. Start times and deadlines given as a time of day follow it, and people read it.
/// `steady` is also written as a time of day, but it advances with CLOCK_BOOTTIME and ignores jumps of the wall clock.
/// Delays, back-offs, pauses, leases and deadlines given as a length are measured on it.
struct StoreTime {
  WallTime wall{};
  WallTime steady{};
};

}  // namespace cohort
