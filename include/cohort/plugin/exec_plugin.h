#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"

namespace cohort {

/// A program that steps may run, as its operator has allowed it.
struct ExecProgram {
  std::filesystem::path path = {};  ///< Absolute. It is run as it is: no shell, no search.
  /// What it is given. `{…}` stands for a value: `{file}`, `{folder}`, `{task_id}`, `{group}`, `{token}`, `{attempt}`,
  /// `{parameters.NAME}`, `{payload.NAME}`, `{context.NAME}`, with dots for what is deeper; `{{` and `}}` are braces. A
  /// value never becomes more than its place in one argument, and where it would begin an argument it must not begin
  /// with a dash.
  std::vector<std::string> arguments = {};
  std::map<std::string, std::string> environment = {};  ///< All it has, with PATH, HOME, LANG and COHORT_….
  std::size_t max_output = 256U << 10U;                 ///< Of its standard output; more ends it. 1 byte to 64 MiB.
  std::size_t max_memory = 0;                           ///< Address space of each of its processes; 0: as the node's.
  std::uint32_t max_processes = 0;                      ///< Of its user, as RLIMIT_NPROC counts; 0: as the node's.
  Duration cpu_time{0};                                 ///< Of each of its processes, in seconds; 0: any.
  Duration kill_after = std::chrono::seconds(5);        ///< From the polite signal to the other one.
};

struct ExecOptions {
  std::map<std::string, ExecProgram> programs = {};
  /// Where folders are made for tasks that have no file; empty: the system's place for temporary files. A node takes
  /// its work folder, and so removes at its start what it could not when it was killed.
  std::filesystem::path folder = {};
};

/// The step "exec": runs a program of the operator's list.
///
///     {"plugin": "exec", "parameters": {"program": "thumbnail", "size": 200}}
///
/// It runs in its own process group, in an empty folder of its own that is removed afterwards, with the step as JSON on
/// its standard input. When its time is over, its task is cancelled or its node stops, the group is sent SIGTERM, then
/// SIGKILL; when the node dies, SIGKILL. What is left of the group when the program ends is killed.
///
/// Exit 0: success; its standard output, if there is any, is a JSON object, the outputs. Exit 75 (EX_TEMPFAIL) and
/// death by a signal: retry. Everything else: failure. The last lines of its standard error are kept with the task.
///
/// What leaves the group (setsid) is not followed. The process must not ignore SIGCHLD nor wait for children that are
/// not its own, and has one small child of the plugin's for as long as that lives: make it early, it keeps that
/// moment's memory.
///
/// kInvalid: a program that is not there, cannot be run, or has an argument that cannot be understood. kUnavailable:
/// that child could not be made.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_exec_plugin(ExecOptions options);

}  // namespace cohort
