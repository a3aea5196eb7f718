#include "cli/commands.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command_context.h"
#include "cli/text.h"
#include "cohort/base/internal/nearest_word.h"

namespace cohort {
namespace {

std::string exit_code_lines() {
  std::string out = "Exit codes:";
  for (const ExitCodeMeaning& each : kExitCodes) {
    out += "\n  " + std::to_string(each.code) + "  " + std::string(each.meaning);
  }
  return out;
}

// The visible commands of an app, or the names of its options as they are typed.
std::vector<std::string_view> commands_of(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) names.push_back(each->get_name());
  }
  return names;
}

const CLI::App* command_of(const CLI::App& app, std::string_view name) {
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == name) return each;
  }
  return nullptr;
}

const CLI::Option* option_of(const CLI::App& app, std::string_view word) {
  for (const CLI::Option* each : app.get_options()) {
    const auto is_name = [&](const std::string& name) { return word == name; };
    if (word.starts_with("--") &&
        std::ranges::any_of(each->get_lnames(), [&](const std::string& name) { return is_name("--" + name); })) {
      return each;
    }
    if (std::ranges::any_of(each->get_snames(), [&](const std::string& name) { return is_name("-" + name); })) {
      return each;
    }
  }
  return nullptr;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* each : app.get_options()) {
    for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string nearest = internal::nearest_word(word, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

// The first word that is no command or option, said with what was probably meant; "" if there is none.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (name == "--") return "";
    if (name.size() > 1 && name[0] == '-') {
      const CLI::Option* option = option_of(*at, name);
      if (option == nullptr) option = option_of(app, name);
      if (option == nullptr) {
        std::vector<std::string> names = options_of(*at);
        if (at != &app) std::ranges::copy(options_of(app), std::back_inserter(names));
        const std::string where = at == &app ? "cohort" : "'" + at->get_name() + "'";
        return where + " has no option '" + name + "'" + did_you_mean(name, {names.begin(), names.end()});
      }
      if (option->get_items_expected_max() > 0 && name == words[i]) ++i;  // Its value.
      continue;
    }
    if (const CLI::App* const command = command_of(*at, name)) {
      at = command;
    } else if (!commands_of(*at).empty()) {
      const std::string of = at == &app ? "" : " of '" + at->get_name() + "'";
      return "there is no command '" + name + "'" + of + did_you_mean(name, commands_of(*at));
    }
  }
  return "";
}

// `cohort`, and `cohort help COMMAND`. Nothing: it is something else.
std::optional<int> show_help(const CLI::App& app, const std::vector<std::string>& words, Terminal& terminal) {
  if (!words.empty() && words[0] != "help") return std::nullopt;
  const CLI::App* of = &app;
  std::string path;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const CLI::App* const command = command_of(*of, words[i]);
    if (command == nullptr) {
      terminal.error << "cohort: there is no command '" << safe_text(words[i]) << "'"
                     << did_you_mean(words[i], commands_of(*of)) << "\n";
      return kExitUsage;
    }
    path += (path.empty() ? "cohort" : " " + of->get_name());
    of = command;
  }
  terminal.out << of->help(path);
  return kExitDone;
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
  add_chains(app, context);
  add_task_lists(app, context);
  add_task_calls(app, context);
  add_dead_letters(app, context);
  add_groups(app, context);
  add_events(app, context);
  add_node(app, context);
  add_shell_texts(app, terminal, exit_code);
}

int run_commands(CLI::App& app, int count, const char* const* arguments, Terminal& terminal, const int& exit_code) {
  const std::vector<std::string> words(arguments + std::min(count, 1), arguments + count);
  if (const auto code = show_help(app, words, terminal)) return *code;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    terminal.out.flush();
    if (!terminal.out && exit_code == kExitDone) {
      terminal.error << "what was to be printed could not be written\n";
      return kExitRefused;
    }
    return exit_code;
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() != 0 ? unknown_word(app, words) : "";
    if (!unknown.empty()) {
      terminal.error << "cohort: " << safe_text(unknown) << "\nSee 'cohort help'.\n";
      return kExitUsage;
    }
    const int code = app.exit(error, terminal.out, terminal.error);
    return code == 0 ? kExitDone : kExitUsage;
  }
}

}  // namespace cohort
