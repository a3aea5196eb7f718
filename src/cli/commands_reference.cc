#include <string>
#include <string_view>

#include "cli/command_texts.h"
#include "cli/commands.h"

namespace cohort {
namespace {

/// For a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string options_of(const CLI::App& app) {
  std::string rows;
  for (const CLI::Option* option : visible_options(app)) {
    if (option == app.get_help_ptr()) continue;
    const std::string otherwise = option->get_default_str();
    rows += "| `" + cell(option_name(*option)) + "` | " + cell(option_text(*option)) + " | " +
            (otherwise.empty() ? "" : "`" + cell(otherwise) + "`") + " |\n";
  }
  return rows.empty() ? "" : "| option | what it does | default |\n|---|---|---|\n" + rows + "\n";
}

void append(std::string& out, const CLI::App& app, const std::string& path, std::size_t depth) {
  out += std::string(depth, '#') + " " + path + "\n\n";
  if (!app.get_description().empty()) out += app.get_description() + ".\n\n";
  const std::string example = example_of(app);
  out += "```\n" + usage_of(app, path) + "\n```\n\n" + options_of(app) +
         (example.empty() ? "" : "```\n" + example + "\n```\n\n");
  for (const CLI::App* each : visible_commands(app)) {
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
