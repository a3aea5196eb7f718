// What a project outside of this tree sees: installed headers and cohort::core, nothing else.

#include <cohort/base/version.h>
#include <cohort/group/group_executor.h>

#include <cstdio>

int main() {
  cohort::GroupExecutor executor({.defaults = {.max_concurrency = 2}});
  const auto result = executor.submit("outside", "1", [] { return 42; }).await();
  std::printf("cohort %s says %d\n", COHORT_VERSION, result.value.value_or(0));
  return result.value == 42 ? 0 : 1;
}
