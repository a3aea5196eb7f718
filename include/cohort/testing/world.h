#pragma once

#include <cstdint>
#include <string>

#include "cohort/base/random.h"
#include "cohort/testing/manual_executor.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {

/// All that a test in virtual time stands on: a clock, an executor and random numbers from a seed. When it
/// ends it asserts that no task, permit or thread is left behind.
///
/// With a test framework, make it a member and check `leaks()` in the teardown: that fails the test, not the program.
///
/// Thread-safety: confined to the thread that made it.
class World {
 public:
  explicit World(GroupExecutorOptions options = {}, std::uint64_t seed = 1);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Lets everything that was started end, and says what did not; empty when all did.
  [[nodiscard]] std::string leaks();

  VirtualClock clock;
  Random random;
  ManualExecutor executor;
};

}  // namespace cohort
