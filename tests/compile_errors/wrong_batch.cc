// expected: a task is a callable that takes nothing or a std::stop_token
#include "cohort/task/executor.h"

cohort::GroupTask<int> task("group", "task", [](int number) { return number; });
