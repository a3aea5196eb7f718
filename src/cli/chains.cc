#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/table.h"

namespace cohort {

using nlohmann::json;

namespace {

/// "width (integer, 200), to (string)": with the default where there is one.
std::string parameters_text(const json& parameters) {
  std::string out;
  for (const json& each : parameters) {
    const json& otherwise = member(each, "default");
    const std::string value = otherwise.is_string() ? shown(each, "default") : json_text(otherwise, false);
    out += (out.empty() ? "" : ", ") + shown(each, "name") + " (" + shown(each, "type") +
           (otherwise.is_null() ? "" : ", " + value) + ")";
  }
  return out;
}

std::string steps_text(const json& steps) {
  std::string out;
  for (const json& each : steps) out += (out.empty() ? "" : ", ") + shown(each, "plugin");
  return out;
}

void print_chains(const CommandContext& context, const json& chains) {
  if (chains.empty()) {
    context.terminal.out << "The node's configuration has no chains.templates.\n";
    return;
  }
  Table table({{.title = "CHAIN", .min_width = 10},
               {.title = "STEPS", .shortens = true, .min_width = 8},
               {.title = "PARAMETERS", .shortens = true, .min_width = 12},
               {.title = "DESCRIPTION", .shortens = true, .min_width = 8}});
  for (const json& each : chains) {
    table.add_row({{shown(each, "name")},
                   {steps_text(list(each, "steps"))},
                   {parameters_text(list(each, "parameters"))},
                   {shown(each, "description")}});
  }
  context.terminal.out << table.render(context.table_width(), context.style());
}

}  // namespace

void add_chains(CLI::App& app, const SharedContext& context) {
  CLI::App* command =
      add_command(app, "chains", "List the chains that the node's configuration names", "cohort chains");
  command->group("Tasks");
  run_when_chosen(command, context, [](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const Result<json> answer = client.ask(Operation::kListChains);
    if (!answer) return answer.error();
    if (shared.json) {
      shared.print_json(*answer);
    } else {
      print_chains(shared, list(*answer, "chains"));
    }
    return kExitDone;
  });
}

}  // namespace cohort
