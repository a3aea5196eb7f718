// A task may be a coroutine. It gives its thread back whenever it suspends: a thousand sleeping tasks need one worker.

#include <cstdio>
#include <string>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/task/when.h"

using namespace std::chrono_literals;

namespace {

cohort::Task<int> poll_until_ready(int polls) {
  for (int i = 0; i < polls; ++i) co_await cohort::sleep_for(10ms);
  co_return polls;
}

}  // namespace

int main() {
  cohort::GroupExecutor executor({.defaults = {.max_concurrency = 100}, .threads = 1});
  const auto start = executor.clock().now();

  std::vector<cohort::TaskHandle<int>> polls;
  polls.reserve(1000);
  for (int i = 0; i < 1000; ++i) {
    polls.push_back(
        executor.submit("device-" + std::to_string(i % 10), "poll", [i] { return poll_until_ready(i % 5); }));
  }
  auto sum = executor.submit("report", "sum", [polls]() -> cohort::Task<int> {
    int total = 0;
    for (const auto& result : co_await when_all(polls)) total += result.value.value_or(0);
    co_return total;
  });

  std::printf("%d polls", sum.await().value.value_or(-1));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(executor.clock().now() - start);
  std::printf(" in %lld ms on %zu thread(s)\n", static_cast<long long>(took.count()), executor.thread_count());
}
