// Groups with their own limits on one executor: VIPs run four at a time, everybody else one.
//
// It runs in virtual time: the requests below take 50 ms each and the program ends at once.

#include <cstdio>
#include <string>
#include <vector>

#include "cohort/testing/manual_executor.h"

using namespace std::chrono_literals;

int main() {
  cohort::VirtualClock clock;
  cohort::ManualExecutor executor(clock, {.groups = {{"db-write", {.max_concurrency = 2}}},
                                          .resolver = [](std::string_view key) -> cohort::GroupLimits {
                                            return {.max_concurrency = key.starts_with("vip:") ? 4U : 1U};
                                          },
                                          .global_max_in_flight = 256,
                                          .threads = 8});

  std::vector<cohort::GroupTask<int>> tasks;
  for (const std::string group : {"vip:alice", "bob", "db-write"}) {
    for (int i = 0; i < 8; ++i) {
      tasks.emplace_back(group, "request-" + std::to_string(i), [&executor, i] {
        executor.spend(50ms);  // A slow call.
        return i;
      });
    }
  }
  const auto start = clock.now();
  for (const cohort::TaskResult<int>& result : executor.execute_all(std::move(tasks))) {
    const auto ended = std::chrono::duration_cast<std::chrono::milliseconds>(result.ended_at - start);
    std::printf("%-10s %-10s %s after %3lld ms\n", result.group.c_str(), result.task_id.c_str(),
                std::string(to_string(result.status)).c_str(), static_cast<long long>(ended.count()));
  }
}
