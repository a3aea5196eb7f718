#pragma once

namespace exec_helper {

/// The descriptors of one step, in the order in which the node sends them.
struct StepFiles {
  int specification = -1;
  int channel = -1;
  int input = -1;
  int output = -1;
  int errors = -1;
};

/// Runs one step, in a process of its own that was forked for it: starts the program, adopts every orphan among its
/// descendants, and ends when none of them is left. Killed descendants, node and helper are all answered in the same
/// way: everything below this process is killed.
[[noreturn]] void run_step(const StepFiles& files, unsigned long number, int helper);

}  // namespace exec_helper
