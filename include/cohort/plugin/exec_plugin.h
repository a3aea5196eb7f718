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
  Duration kill_after = std::chrono::seconds(5);        ///< Delay between SIGTERM and SIGKILL.
  /// What its standard output is. kJson: nothing, or a JSON object, the step's outputs. kText: text, the output
  /// "output" of the step. kIgnore: thrown away.
  enum class Output : std::uint8_t { kJson, kText, kIgnore } output = Output::kJson;
  /// A folder, relative to the one the program begins in. The files in it outlive the step and are listed with the task
  /// (PluginResult::artifacts()). Empty: none are kept.
  std::string artifacts = {};
  std::uint64_t max_artifacts = 64U << 20U;  ///< Bytes of all artifacts of a step; more fail the step.
};

struct ExecOptions {
  std::map<std::string, ExecProgram> programs = {};
  std::filesystem::path artifacts = {};  ///< Where artifacts are kept. Needed if a program has some.
  std::filesystem::path helper = {};     ///< cohort-exec-helper; empty: beside this program, or where it is installed.
  bool use_cgroups = true;               ///< Give each step a cgroup (version 2) where one may be made.
};

/// The step "exec": runs a program of the operator's list.
///
///     {"plugin": "exec", "parameters": {"program": "thumbnail", "size": 200}}
///
/// It begins in an empty folder of its own that is removed afterwards, with the step as JSON on its standard input.
/// When its time is over, its task is cancelled or its node stops, it and all its descendants are sent SIGTERM, then
/// SIGKILL; when the node dies, SIGKILL. Descendants that are left when the program ends are killed, also those that
/// have called setsid() or forked twice.
///
/// Exit 0: success. Exit 75 (EX_TEMPFAIL) and death by a signal: retry. Everything else: failure. The last lines of its
/// standard error are kept with the task. When descriptors, processes or memory run out, or the helper dies, the step
/// waits and uses up no retry.
///
/// A small program of its own, cohort-exec-helper, starts and kills the programs. This process gets one child, the
/// helper; it does not become a subreaper and need not care for SIGCHLD.
///
/// kInvalid: a program that is not there, cannot be run, or has an argument that cannot be understood. kUnavailable:
/// the helper could not be started.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_exec_plugin(ExecOptions options);

/// The helper of a plugin that make_exec_plugin() has made keeps a copy of this descriptor open until every program has
/// ended, also after the death of this process. A node hands it the lock of its folder.
Result<void> hold_until_programs_end(Plugin& exec, int descriptor);
/// The number of the helper's process; -1: `exec` is another plugin.
[[nodiscard]] int exec_helper_pid(const Plugin& exec);

}  // namespace cohort
