#pragma once

#include <cstdint>
#include <string>

#include "cohort/base/random.h"
#include "cohort/testing/manual_executor.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// The set-up of a test in virtual time: a clock, an executor and random numbers from a seed. Its destructor asserts
/// that no task, permit or thread is left behind.
///
/// With a test framework, make the World a member of the fixture and check `leaks()` in the teardown. A leak then fails
/// the test instead of aborting the program.
///
/// Thread-safety: confined to the thread that made it.
class World {
 public:
  explicit World(GroupExecutorOptions options = {}, std::uint64_t seed = 1);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs the executor until no task is left, then describes what is still left over. Empty if nothing is.
  [[nodiscard]] std::string leaks();

  VirtualClock clock;
  Random random;
  ManualExecutor executor;
};

}  // namespace cohort
