#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/text.h"

namespace cohort {

/// What all commands share: the terminal, and the options that may stand before or after any of them.
///
/// Thread-safety: confined to the thread that runs the command.
struct CommandContext {
  Terminal& terminal;
  int& exit_code;
  std::string node{kDefaultNode};
  bool json = false;
  bool no_colour = false;

  [[nodiscard]] Style style() const;
  /// For tables: 0, no limit, where the reader is a program.
  [[nodiscard]] int table_width() const;
  [[nodiscard]] int line_width() const;
  void pause(std::chrono::milliseconds time) const;
  /// The API's JSON and a line break: indented on a terminal.
  void print_json(const nlohmann::json& value) const;
  /// A sentence for standard error.
  void complain(const std::string& message) const;
  /// The same, and its exit code.
  int fail(const Error& error) const;
};
using SharedContext = std::shared_ptr<CommandContext>;

[[nodiscard]] ExitCode exit_code_of(const Error& error);

/// A command with an example of its use, which its help ends with.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& example);
/// Runs `body` when `command` was chosen. Its result is the exit code; its error is told and becomes one.
void run_when_chosen(CLI::App* command, const SharedContext& context,
                     std::function<Result<int>(const CommandContext&, ApiClient&)> body);

/// Makes a call about the task with that id. If the node knows no such task, makes it again with the one id that begins
/// so, and changes `id` to that. kInvalid: several begin so. A … at its end, where a table has cut it, is left out.
Result<nlohmann::json> call_with_id(ApiClient& client, std::string& id,
                                    const std::function<Result<nlohmann::json>(const std::string& id)>& call);

/// The same for each id, and shows each answer: with --json as JSON, else by `show`. A refusal is told and the rest
/// goes on; a node that cannot be reached ends it. The exit code of the first that failed, if any.
int call_for_each(const CommandContext& context, ApiClient& client, const std::vector<std::string>& ids,
                  const std::function<Result<nlohmann::json>(const std::string& id)>& call,
                  const std::function<void(const std::string& id, const nlohmann::json& answer)>& show);

/// Lets a text option take nothing but a duration such as "30s", or a time such as "2026-11-16T05:00:00Z".
[[nodiscard]] CLI::Validator duration_validator();
[[nodiscard]] CLI::Validator time_validator();

void add_submit(CLI::App& app, const SharedContext& context);
void add_chains(CLI::App& app, const SharedContext& context);
void add_task_lists(CLI::App& app, const SharedContext& context);
void add_task_calls(CLI::App& app, const SharedContext& context);
void add_dead_letters(CLI::App& app, const SharedContext& context);
void add_groups(CLI::App& app, const SharedContext& context);
void add_events(CLI::App& app, const SharedContext& context);
void add_node(CLI::App& app, const SharedContext& context);

}  // namespace cohort
