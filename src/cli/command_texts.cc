#include "cli/command_texts.h"

#include <algorithm>

namespace cohort {

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
  std::erase_if(commands, [](const CLI::App* each) { return each->get_name().empty() || each->get_group().empty(); });
  return commands;
}

std::vector<const CLI::Option*> visible_options(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  std::erase_if(options, [](const CLI::Option* each) { return each->get_group().empty(); });
  return options;
}

std::string option_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  const std::string type = option.get_type_name();
  if (!type.empty()) name += " " + type;
  return name;
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_envname().empty()) text += " (environment: `" + option.get_envname() + "`)";
  return text;
}

std::string usage_of(const CLI::App& app, const std::string& path) {
  std::string out = path;
  bool has_options = false;
  std::string positionals;
  for (const CLI::Option* option : visible_options(app)) {
    if (!option->get_positional()) {
      has_options = true;
      continue;
    }
    std::string name = option->get_type_name().empty() ? option->get_name(true) : option->get_type_name();
    if (option->get_items_expected_max() > 1) name += "...";
    positionals += option->get_required() ? " " + name : " [" + name + "]";
  }
  if (has_options) out += " [OPTIONS]";
  out += positionals;
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) out += " COMMAND";
  return out;
}

std::string example_of(const CLI::App& app) {
  std::string footer = app.get_footer();
  footer.resize(std::min(footer.find("\n\n"), footer.size()));
  return footer;
}

}  // namespace cohort
