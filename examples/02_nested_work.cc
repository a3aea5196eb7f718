// A task may submit to any group, its own included, and await the result: it parks, and gives its permits back until
// the answer is there. So nothing here deadlocks, although every limit is 1.

#include <cstdio>

#include "cohort/group/group_executor.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/when.h"

int main() {
  cohort::GroupExecutor executor(
      {.defaults = {.max_concurrency = 1, .max_in_flight = 1}, .global_max_in_flight = 1, .threads = 1});

  auto page = executor.submit("pages", "home", [&executor] {
    auto price = executor.submit("pages", "price", [] { return 12; });
    auto stock = executor.submit("stock", "count", [] { return 3; });
    int total = 0;
    for (const auto& part : when_all(price, stock).await()) total += part.value.value_or(0);

    cohort::TaskScope scope(executor);  // Cancels and awaits what is left when it ends.
    scope.submit("log", "visit", [] { std::puts("somebody looked at the page"); });
    if (auto joined = scope.join(); !joined) return -1;
    return total;
  });
  auto rounded = page.then([](int total) { return total / 10 * 10; });

  std::printf("the page says %d, rounded %d\n", page.await().value.value_or(-1), rounded.await().value.value_or(-1));

  auto itself = executor.submit("pages", "narcissus", [&page] { return page.await().value.value_or(-1); });
  std::printf("awaiting what is done is free: %d\n", itself.await().value.value_or(-1));
}
