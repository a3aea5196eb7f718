// A process that is there to be killed while it runs a program as a step:
//
//   exec_host PROGRAM FIFO
//
// The program has FIFO in its environment, to say that it is there.

#include <cstdio>
#include <string>

#include "cohort/plugin/exec_plugin.h"

int main(int count, char** words) {
  if (count != 3) {
    std::fputs("exec_host PROGRAM FIFO\n", stderr);
    return 2;
  }
  cohort::ExecOptions options;
  options.programs["it"] = {.path = words[1], .environment = {{"FIFO", words[2]}}};
  auto plugin = cohort::make_exec_plugin(std::move(options));
  if (!plugin) {
    std::fprintf(stderr, "%s\n", plugin.error().message.c_str());
    return 2;
  }
  cohort::ChainTask task;
  task.request.id = "t";
  task.request.callbacks.push_back({.plugin = "exec", .parameters = R"({"program": "it"})"});
  cohort::StepContext context(task, {}, {});
  std::fprintf(stderr, "%s\n", (*plugin)->run(context).reason().c_str());
  return 1;
}
