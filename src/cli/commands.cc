#include "cli/commands.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_context.h"

namespace cohort {
namespace {

std::string exit_code_lines() {
  std::string out = "Exit codes:";
  for (const ExitCodeMeaning& each : kExitCodes) {
    out += "\n  " + std::to_string(each.code) + "  " + std::string(each.meaning);
  }
  return out;
}

}  // namespace

void add_commands(CLI::App& app, Terminal& terminal, int& exit_code) {
  const auto context = std::make_shared<CommandContext>(CommandContext{.terminal = terminal, .exit_code = exit_code});
  // At most one, so that a group or task may be called like a command.
  app.require_subcommand(1);
  app.footer(exit_code_lines());
  app.add_option("--node", context->node, "The node to ask")
      ->envname("COHORT_NODE")
      ->type_name("URL")
      ->capture_default_str();
  app.add_flag("--json", context->json, "Print the API's JSON and nothing else");
  app.add_flag("--no-colour,--no-color", context->no_colour, "No colours; NO_COLOR in the environment says the same");
  add_submit(app, context);
  add_task_lists(app, context);
  add_task_calls(app, context);
  add_dead_letters(app, context);
  add_groups(app, context);
  add_events(app, context);
  add_node(app, context);
}

int run_commands(CLI::App& app, int count, const char* const* arguments, Terminal& terminal, const int& exit_code) {
  try {
    std::vector<std::string> reversed;
    for (int i = count - 1; i > 0; --i) reversed.emplace_back(arguments[i]);
    app.parse(std::move(reversed));
    terminal.out.flush();
    if (!terminal.out && exit_code == kExitDone) {
      terminal.error << "what was to be printed could not be written\n";
      return kExitRefused;
    }
    return exit_code;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error, terminal.out, terminal.error);
    return code == 0 ? kExitDone : kExitUsage;
  }
}

}  // namespace cohort
