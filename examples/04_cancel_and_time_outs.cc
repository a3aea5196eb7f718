// Ways for a task to end other than by returning: it is cancelled while it waits or while it runs, or its time is up.

#include <cstdio>
#include <string>
#include <thread>

#include "cohort/group/group_executor.h"

using namespace std::chrono_literals;

namespace {

// A call that takes for ever, but looks at its stop token.
cohort::Result<int> endless_call(std::stop_token stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
  return cohort::Error{cohort::ErrorCode::kCancelled, "asked to stop", {}};
}

template <class T>
void print(const cohort::TaskHandle<T>& handle) {
  const auto result = handle.await();
  std::printf("%-8s %s: %s\n", result.task_id.c_str(), std::string(to_string(result.status)).c_str(),
              result.error->message.c_str());
}

}  // namespace

int main() {
  cohort::GroupExecutor executor;  // Every group runs one task at a time.

  auto running = executor.submit("upstream", "running", endless_call);
  auto waiting = executor.submit("upstream", "waiting", [] { return 1; });
  auto late = executor.submit("upstream", "late", [] { return 2; }, {.queue_timeout = 20ms});
  std::printf("why does 'waiting' wait? %s\n", executor.explain(waiting).text.c_str());

  waiting.cancel();  // Settles at once; its body never runs.
  print(waiting);
  print(late);       // Nobody had to do anything: its time in the queue was up.
  running.cancel();  // Asks its stop token; the body decides.
  print(running);

  auto slow = executor.submit("upstream", "slow", endless_call, {.run_timeout = 20ms});
  print(slow);  // The handle settles at its time, whatever the body does; the body is asked to stop.

  executor.submit("upstream", "left", endless_call);
  if (!executor.shutdown(10ms)) std::puts("shutdown cancelled what was left");
}
