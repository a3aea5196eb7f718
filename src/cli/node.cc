#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cohort/base/text_time.h"

namespace cohort {

using nlohmann::json;

namespace {

/// "completed 12, failed 1", without what is none.
std::string counts_text(const json& counts) {
  std::string out;
  if (!counts.is_object()) return out;
  for (const auto& [name, count] : counts.items()) {
    if (!count.is_number() || count == 0) continue;
    out += (out.empty() ? "" : ", ") + safe_text(name) + " " + count.dump();
  }
  return out.empty() ? "none" : out;
}

std::string names_text(const json& names) {
  std::string out;
  for (const json& name : names) {
    if (name.is_string()) out += (out.empty() ? "" : ", ") + safe_text(name.get_ref<const std::string&>());
  }
  return out.empty() ? "none" : out;
}

std::string uptime_text(const json& node) {
  return format_duration(std::chrono::seconds(static_cast<std::int64_t>(number(node, "uptime_s"))));
}

void print_node(const CommandContext& context, const json& node) {
  std::ostream& out = context.terminal.out;
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out << pad_right(label, 14) << text << "\n";
  };
  const std::string state = shown(node, "state");
  const json& store = member(node, "store");
  line("Node", context.style().paint(Colour::kBold, shown(node, "node")));
  line("State", context.style().paint(colour_of(state), state) + ", up " + uptime_text(node));
  line("Problem", shown(node, "problem"));
  line("Version", shown(node, "version"));
  line("Boot", shown(node, "boot"));
  line("Store", shown(store, "kind") + (shown(store, "folder").empty() ? "" : " in " + shown(store, "folder")));
  line("Plugins", names_text(list(node, "plugins")));
  line("Chains", counts_text(member(node, "chains")));
  line("Tasks", counts_text(member(node, "tasks")));
  line("Dead letters", shown(node, "dead_letters"));
  line("Damaged", whole(node, "damaged_rows") == 0 ? "" : shown(node, "damaged_rows") + " rows cannot be read");
}

}  // namespace

void add_node(CLI::App& app, const SharedContext& context) {
  CLI::App* command = add_command(app, "node", "Show how the node is", "cohort node --node http://127.0.0.1:7171");
  command->group("Node");
  run_when_chosen(command, context, [](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const Result<json> node = client.ask(Operation::kGetNode);
    if (!node) return node.error();
    if (shared.json) {
      shared.print_json(*node);
    } else {
      print_node(shared, *node);
    }
    return kExitDone;
  });
}

}  // namespace cohort
