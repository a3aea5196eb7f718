// A process that is there to be killed while it runs a program as a step:
//
//   exec_host PROGRAM FIFO [LOCK]
//
// The program has FIFO in its environment, to say that it is there. LOCK is a file that is locked, by this process and
// by the helper of its programs.

#include <fcntl.h>
#include <sys/file.h>

#include <cstdio>
#include <string>

#include "cohort/plugin/exec_plugin.h"

int main(int count, char** words) {
  if (count != 3 && count != 4) {
    std::fputs("exec_host PROGRAM FIFO [LOCK]\n", stderr);
    return 2;
  }
  cohort::ExecOptions options;
  options.programs.emplace("it", cohort::ExecProgram{.path = words[1], .environment = {{"FIFO", words[2]}}});
  auto plugin = cohort::make_exec_plugin(std::move(options));
  if (!plugin) {
    std::fprintf(stderr, "%s\n", plugin.error().message.c_str());
    return 2;
  }
  if (count == 4) {
    const int lock = ::open(words[3], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (::flock(lock, LOCK_EX) != 0 || !cohort::hold_until_programs_end(**plugin, lock)) return 2;
  }
  cohort::ChainTask task;
  task.request = cohort::NewTask{.id = "t", .steps = {{.plugin = "exec", .parameters = R"({"program": "it"})"}}};
  cohort::StepContext context(task, {}, {});
  std::fprintf(stderr, "%s\n", (*plugin)->run(context).reason().c_str());
  return 1;
}
