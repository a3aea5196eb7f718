#include <algorithm>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace cohort {
namespace {

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

/// For a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string option_name(const CLI::Option& option) {
  std::string name = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  const std::string type = option.get_type_name();
  if (!type.empty()) name += " " + type;
  return name;
}

std::string usage_of(const CLI::App& app, const std::string& path) {
  std::string out = path;
  bool has_options = false;
  std::string positionals;
  for (const CLI::Option* option : app.get_options()) {
    if (is_hidden(*option)) continue;
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

std::string options_of(const CLI::App& app) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    if (is_hidden(*option) || option == app.get_help_ptr()) continue;
    std::string text = option->get_description();
    if (!option->get_envname().empty()) text += " (environment: `" + option->get_envname() + "`)";
    const std::string otherwise = option->get_default_str();
    rows += "| `" + cell(option_name(*option)) + "` | " + cell(text) + " | " +
            (otherwise.empty() ? "" : "`" + cell(otherwise) + "`") + " |\n";
  }
  return rows.empty() ? "" : "| option | what it does | default |\n|---|---|---|\n" + rows + "\n";
}

/// The first paragraph of a footer: an example, or the exit codes.
std::string footer_of(const CLI::App& app) {
  std::string footer = app.get_footer();
  footer.resize(std::min(footer.find("\n\n"), footer.size()));
  return footer.empty() ? "" : "```\n" + footer + "\n```\n\n";
}

void append(std::string& out, const CLI::App& app, const std::string& path, std::size_t depth) {
  out += std::string(depth, '#') + " " + path + "\n\n";
  if (!app.get_description().empty()) out += app.get_description() + ".\n\n";
  out += "```\n" + usage_of(app, path) + "\n```\n\n" + options_of(app) + footer_of(app);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name().empty() || each->get_group().empty()) continue;
    append(out, *each, path + " " + each->get_name(), depth < 3 ? depth + 1 : depth);
  }
}

}  // namespace

std::string commands_reference(const CLI::App& app) {
  std::string out;
  append(out, app, app.get_name().empty() ? "cohort" : app.get_name(), 1);
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace cohort
