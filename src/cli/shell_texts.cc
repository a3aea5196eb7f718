// What shells and `man` read about the commands, made of the commands themselves.

#include <cctype>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>

#include "cli/command_texts.h"
#include "cli/commands.h"

namespace cohort {
namespace {

// The words that may follow a path of commands: its commands and options.
std::string words_after(const CLI::App& app, const CLI::App& root) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* each : visible_commands(app)) add(each->get_name());
  for (const CLI::App* of : {&app, &root}) {
    for (const CLI::Option* option : visible_options(*of)) {
      for (const std::string& name : option->get_lnames()) add("--" + name);
    }
    if (&app == &root) break;
  }
  return words;
}

void append_cases(std::string& out, const CLI::App& app, const CLI::App& root, const std::string& path) {
  out += "    '" + path + "') words='" + words_after(app, root) + "' ;;\n";
  for (const CLI::App* each : visible_commands(app)) {
    append_cases(out, *each, root, path.empty() ? each->get_name() : path + " " + each->get_name());
  }
}

// "dead-letters list" and so on, for the function to find the command that has been typed.
void append_paths(std::string& out, const CLI::App& app, const std::string& path) {
  for (const CLI::App* each : visible_commands(app)) {
    const std::string below = path.empty() ? each->get_name() : path + " " + each->get_name();
    out += "    '" + below + "') path=$next ;;\n";
    append_paths(out, *each, below);
  }
}

// A line of roff: backslashes, and a dot or a quote at its beginning, would mean something.
std::string roff(const std::string& text) {
  std::string out;
  bool is_line_start = true;
  for (const char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c != '`') {
      out += c;
    }
    is_line_start = c == '\n';
  }
  return out;
}

void write_pages(const CLI::App& app, const std::string& path, const std::filesystem::path& folder,
                 std::string& failure) {
  std::string name = path;
  for (char& c : name) c = c == ' ' ? '-' : c;
  const std::filesystem::path file = folder / (name + ".1");
  std::ofstream out(file);
  out << man_page(app, path);
  out.close();
  if (!out) failure = "cannot write " + file.string();
  for (const CLI::App* each : visible_commands(app)) write_pages(*each, path + " " + each->get_name(), folder, failure);
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string paths;
  append_paths(paths, app, "");
  std::string cases;
  append_cases(cases, app, app, "");
  return "# Completion of cohort for bash: source <(cohort completion)\n"
         "_cohort() {\n"
         "  local path='' next='' words='' i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
         "    case $next in\n" +
         paths +
         "    esac\n"
         "  done\n"
         "  case $path in\n" +
         cases +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
         "}\n"
         "complete -o default -F _cohort cohort\n";
}

std::string man_page(const CLI::App& app, const std::string& path) {
  std::string name = path;
  std::string title;
  for (char& c : name) {
    if (c == ' ') c = '-';
    title += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  std::string out = ".TH \"" + title + "\" 1\n.SH NAME\n" + roff(name) + " \\- " + roff(app.get_description()) +
                    "\n.SH SYNOPSIS\n.nf\n" + roff(usage_of(app, path)) + "\n.fi\n";
  std::string options;
  for (const CLI::Option* option : visible_options(app)) {
    const std::string otherwise = option->get_default_str();
    options += ".TP\n.B " + roff(option_name(*option)) + "\n" + roff(option_text(*option)) +
               (otherwise.empty() ? "" : ". Default: " + roff(otherwise)) + "\n";
  }
  if (!options.empty()) out += ".SH OPTIONS\n" + options;
  std::string commands;
  for (const CLI::App* each : visible_commands(app)) {
    commands += ".TP\n.B " + roff(each->get_name()) + "\n" + roff(each->get_description()) + "\n";
  }
  if (!commands.empty()) out += ".SH COMMANDS\n" + commands;
  if (const std::string footer = app.get_footer(); !footer.empty()) {
    out += ".SH NOTES\n.nf\n" + roff(footer) + "\n.fi\n";
  }
  return out;
}

void add_shell_texts(CLI::App& app, Terminal& terminal, int& exit_code) {
  CLI::App* completion = app.add_subcommand("completion", "Print the completion of commands and options for bash");
  completion->group("The program");
  completion->footer("Example:\n  cohort completion > /etc/bash_completion.d/cohort");
  completion->callback([&app, &terminal, &exit_code] {
    terminal.out << bash_completion(app);
    exit_code = kExitDone;
  });

  const auto folder = std::make_shared<std::string>();
  CLI::App* man = app.add_subcommand("man-pages", "Write a man page for each command into a folder");
  man->group("The program");
  man->add_option("folder", *folder, "A folder that is there")->required()->type_name("FOLDER");
  man->footer("Example:\n  cohort man-pages /usr/local/share/man/man1");
  man->callback([&app, &terminal, &exit_code, folder] {
    std::string failure;
    write_pages(app, "cohort", *folder, failure);
    if (!failure.empty()) terminal.error << "cohort: " << failure << "\n";
    exit_code = failure.empty() ? kExitDone : kExitRefused;
  });
}

}  // namespace cohort
