// Testing your own code in virtual time: time-outs and cancelling are exact, repeatable and take no time at all.

#include <cstdio>
#include <string>

#include "cohort/testing/world.h"

using namespace std::chrono_literals;

int main() {
  cohort::World world({.defaults = {.max_concurrency = 1}});
  cohort::ManualExecutor& executor = world.executor;

  auto slow = executor.submit("upstream", "slow",
                              [&executor](std::stop_token stop) -> cohort::Result<int> {
                                while (!stop.stop_requested()) executor.spend(30ms);
                                return cohort::Error{cohort::ErrorCode::kCancelled, "asked to stop", {}};
                              },
                              {.run_timeout = 100ms});
  auto behind = executor.submit("upstream", "behind", [] { return 1; }, {.queue_timeout = 20ms});
  executor.advance(10ms);
  std::printf("after  10 ms: %s\n", executor.explain(behind).text.c_str());
  executor.advance(10ms);
  std::printf("after  20 ms: 'behind' %s\n", std::string(to_string(behind.await().status)).c_str());
  executor.advance(80ms);
  std::printf("after 100 ms: 'slow' %s; bodies still going on: %u\n",
              std::string(to_string(slow.await().status)).c_str(), executor.stats().overrunning);
  executor.advance(20ms);
  std::printf("after 120 ms: bodies still going on: %u\n", executor.stats().overrunning);
  // When the world ends it asserts that no task, permit or thread is left.
}
