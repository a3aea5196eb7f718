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

/// A program that the operator allows steps to run.
struct ExecProgram {
  std::filesystem::path path = {};  ///< Absolute path. The program runs without a shell and without a search in PATH.
  /// The arguments of the program. `{…}` stands for a value of the step: `{file}`, `{folder}`, `{task_id}`, `{group}`,
  /// `{token}`, `{attempt}`, `{parameters.NAME}`, `{payload.NAME}`, `{context.NAME}`. A NAME with dots names a deeper
  /// value. `{{` and `}}` stand for braces. A value never becomes more than one argument. A value that begins an
  /// argument must not begin with a dash.
  std::vector<std::string> arguments = {};
  /// The whole environment of the program. The plugin adds COHORT_… and, if they are missing, PATH, HOME and LANG.
  std::map<std::string, std::string> environment = {};
  /// Limit of the standard output. A program that writes more is killed. 1 byte to 64 MiB.
  std::size_t max_output = 256U << 10U;
  std::size_t max_memory = 0;       ///< Limit of the address space of each of its processes. 0: the node's limit.
  std::uint32_t max_processes = 0;  ///< Limit of the processes of its user, as for RLIMIT_NPROC. 0: the node's limit.
  Duration cpu_time{0};             ///< Limit of the CPU time of each of its processes, in seconds. 0: no limit.
  Duration kill_after = std::chrono::seconds(5);  ///< Delay between SIGTERM and SIGKILL.
  /// How the plugin reads the standard output.
  enum class Output : std::uint8_t {
    kJson,   ///< A JSON object with the outputs of the step, or nothing.
    kText,   ///< A text. It becomes the output "output" of the step.
    kIgnore  ///< The plugin ignores it.
  } output = Output::kJson;
  /// A folder, relative to the folder in which the program begins. The files in it outlive the step and are listed with
  /// the task (PluginResult::artifacts()). Empty: no files are kept.
  std::string artifacts = {};
  std::uint64_t max_artifacts = 64U << 20U;  ///< Limit in bytes of all artifacts of a step. More fail the step.
  std::string place = {};  ///< Where it is configured, for messages: "cohort.yaml:12:5". Empty: in code.
};

struct ExecOptions {
  std::map<std::string, ExecProgram> programs = {};
  std::filesystem::path artifacts = {};  ///< The folder for artifacts. Required if a program has artifacts.
  std::filesystem::path helper = {};     ///< cohort-exec-helper. Empty: beside this program, or where it is installed.
  bool use_cgroups = true;               ///< Give each step a cgroup (version 2) if one may be made.
};

/// The step "exec": runs a program of the operator's list.
///
///     {"plugin": "exec", "parameters": {"program": "thumbnail", "size": 200}}
///
/// The program begins in an empty folder of its own, which is removed afterwards. It reads the step as JSON from its
/// standard input.
///
/// The program and all its descendants get SIGTERM and then SIGKILL if the step's time is over, its task is cancelled
/// or the node stops. They get SIGKILL if the node dies. Descendants that are left when the program ends are killed,
/// also those that have called setsid() or forked twice.
///
/// Exit 0 is success. Exit 75 (EX_TEMPFAIL) and death by a signal are a retry. Every other exit is a failure. The last
/// lines of the standard error are kept with the task. If descriptors, processes or memory run out, or the helper dies,
/// the step waits and uses up no retry.
///
/// A separate small program, cohort-exec-helper, starts and kills the programs. It is the only child that the plugin
/// adds to this process. This process does not become a subreaper and need not handle SIGCHLD.
///
/// kInvalid: a program does not exist, cannot be run, or has an argument that cannot be parsed. kUnavailable: the
/// helper could not be started.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_exec_plugin(ExecOptions options);

/// Makes the helper of `exec` keep a copy of `descriptor` open until every program has ended, even if this process
/// dies. A node passes the lock of its folder. kInvalid: `exec` was not made by make_exec_plugin().
Result<void> hold_until_programs_end(Plugin& exec, int descriptor);
/// The process id of the helper. -1 if `exec` was not made by make_exec_plugin().
[[nodiscard]] int exec_helper_pid(const Plugin& exec);

}  // namespace cohort
