#pragma once

#include <atomic>
#include <string_view>

#include "cohort/base/function.h"

namespace cohort {

/// Lets a test inject a fault at a named place in the code: fail a write, lose an answer, end the process.
///
///     if (COHORT_FAILPOINT("store.commit")) return Error{ErrorCode::kUnavailable, "disk full", {}};
///
/// While no Failpoint exists, passing a place costs one relaxed load of a cache line that no thread writes.
///
/// Thread-safety: thread-safe. A thread that passes the place runs the action, with no lock held. Several threads may
/// run the action at the same time, so its captured objects must be thread-safe.
class Failpoint {
 public:
  /// Arms the place `name`: each thread that passes it runs `action`, and the place fails if `action` returns true. The
  /// destructor disarms the place.
  Failpoint(std::string_view name, Function<bool()> action);
  ~Failpoint();
  Failpoint(const Failpoint&) = delete;
  Failpoint& operator=(const Failpoint&) = delete;

  static bool any_armed() { return armed_.load(std::memory_order_relaxed) != 0; }
  static bool passes(std::string_view name);

 private:
  static std::atomic<int> armed_;

  void* entry_;
};

}  // namespace cohort

#define COHORT_FAILPOINT(name) (::cohort::Failpoint::any_armed() && ::cohort::Failpoint::passes(name))
