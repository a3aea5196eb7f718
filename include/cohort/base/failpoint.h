#pragma once

#include <atomic>
#include <string_view>

#include "cohort/base/function.h"

namespace cohort {

/// Named places where a test may interfere: fail a write, lose an answer, end the process.
///
///     if (COHORT_FAILPOINT("store.commit")) return Error{ErrorCode::kUnavailable, "disk full", {}};
///
/// While none is armed, a place costs one relaxed load of a line that nobody writes.
///
/// Thread-safety: thread-safe. The action runs on the thread that passes, with no lock held, on as many threads at a
/// time as pass: what it captures must bear that.
class Failpoint {
 public:
  /// Runs `action` whenever the place `name` is passed; the place fails when it returns true. Disarmed with the object.
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
