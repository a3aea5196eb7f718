#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// What the commands of an app say of themselves, for the reference, the man pages and the shell's completion.

/// Those that are not hidden.
[[nodiscard]] std::vector<const CLI::App*> visible_commands(const CLI::App& app);
[[nodiscard]] std::vector<const CLI::Option*> visible_options(const CLI::App& app);
/// "--group NAME", "-c,--config TEXT", "TASK".
[[nodiscard]] std::string option_name(const CLI::Option& option);
/// What the option does, and the environment variable that says the same.
[[nodiscard]] std::string option_text(const CLI::Option& option);
/// "cohort tasks [OPTIONS] [TASK...]"; `path`: "cohort tasks".
[[nodiscard]] std::string usage_of(const CLI::App& app, const std::string& path);
/// The first paragraph of its footer: an example, or the exit codes.
[[nodiscard]] std::string example_of(const CLI::App& app);

}  // namespace cohort
