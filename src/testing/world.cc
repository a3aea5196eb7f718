#include "cohort/testing/world.h"

#include <utility>

namespace cohort {

World::World(GroupExecutorOptions options, std::uint64_t seed) : random(seed), executor(clock, std::move(options)) {}

World::~World() {
  const std::string left = leaks();
  COHORT_ASSERT(left.empty(), left.c_str());
}

std::string World::leaks() {
  executor.run_until_idle();
  return executor.leaks();
}

}  // namespace cohort
