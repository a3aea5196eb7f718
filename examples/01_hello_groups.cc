// Groups with their own limits on one executor: VIPs run four at a time, everybody else one.

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cohort/group/group_executor.h"

using namespace std::chrono_literals;

int main() {
  cohort::GroupExecutor executor({.groups = {{"db-write", {.max_concurrency = 2}}},
                                  .resolver = [](std::string_view key) -> cohort::GroupLimits {
                                    return {.max_concurrency = key.starts_with("vip:") ? 4U : 1U};
                                  },
                                  .global_max_in_flight = 256});

  cohort::TaskHandle<int> handle = executor.submit("vip:alice", "first", [] { return 42; });
  std::printf("the first task says %d\n\n", handle.await().value.value_or(-1));

  std::vector<cohort::GroupTask<int>> tasks;
  for (const std::string group : {"vip:alice", "bob", "db-write"}) {
    for (int i = 0; i < 8; ++i) {
      tasks.emplace_back(group, "request-" + std::to_string(i), [i] {
        std::this_thread::sleep_for(10ms);  // A slow call. It blocks its thread, and others take over.
        return i;
      });
    }
  }
  const auto start = executor.clock().now();
  for (const cohort::TaskResult<int>& result : executor.execute_all(std::move(tasks))) {
    const auto ended = std::chrono::duration_cast<std::chrono::milliseconds>(result.ended_at - start);
    std::printf("%-10s %-10s %s after %3lld ms\n", result.group.c_str(), result.task_id.c_str(),
                std::string(to_string(result.status)).c_str(), static_cast<long long>(ended.count()));
  }
}
