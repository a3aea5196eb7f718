// expected: then(f): f takes the value of the task before, or its TaskResult
#include <string>

#include "cohort/task/executor.h"

void follow(const cohort::TaskHandle<int>& handle) {
  handle.then([](const std::string& text) { return text; });
}
