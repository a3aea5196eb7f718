// expected: a task is a callable that takes nothing or a std::stop_token
#include "cohort/task/executor.h"

void submit(cohort::Executor& executor) {
  executor.submit("group", "task", [](int number) { return number; });
}
