#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <string_view>

#include "cli/terminal.h"

namespace cohort {

/// What the exit code of a command says.
enum ExitCode : int {
  kExitDone = 0,
  kExitRefused = 1,
  kExitUsage = 2,
  kExitUnreachable = 3,
  kExitNotFound = 4,
};
struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};
inline constexpr std::array<ExitCodeMeaning, 5> kExitCodes = {{
    {kExitDone, "done"},
    {kExitRefused, "the node refused, or the task did not complete"},
    {kExitUsage, "wrong usage"},
    {kExitUnreachable, "the node cannot be reached"},
    {kExitNotFound, "not found"},
}};

inline constexpr std::string_view kDefaultNode = "http://127.0.0.1:7070";

/// Adds the commands that speak a node's HTTP API to `app`, and the options that they share: --node, --json and
/// --no-colour, which may stand before or after the command. From now on `app` wants exactly one command.
///
/// The chosen command runs inside app.parse and leaves its exit code in `exit_code`. `terminal` and `exit_code` outlive
/// `app`.
void add_commands(CLI::App& app, Terminal& terminal, int& exit_code);

/// Parses and so runs: the exit code, with help on `terminal.out` and complaints about usage on `terminal.error`.
[[nodiscard]] int run_commands(CLI::App& app, int count, const char* const* arguments, Terminal& terminal,
                               const int& exit_code);

/// The reference of all commands of `app` in Markdown, made of the commands themselves: what each is for, its usage,
/// options with defaults, and example.
[[nodiscard]] std::string commands_reference(const CLI::App& app);

/// A script for bash that completes the commands and options of `app`.
[[nodiscard]] std::string bash_completion(const CLI::App& app);
/// The man page of one command; `path`: "cohort tasks".
[[nodiscard]] std::string man_page(const CLI::App& app, const std::string& path);
/// Adds the commands that print these.
void add_shell_texts(CLI::App& app, Terminal& terminal, int& exit_code);

}  // namespace cohort
