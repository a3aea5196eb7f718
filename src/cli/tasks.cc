#include <memory>
#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/interrupt.h"
#include "cli/paging.h"
#include "cli/task_view.h"

namespace cohort {

using nlohmann::json;

namespace {

using namespace std::chrono_literals;

struct ListOptions {
  std::string group{};
  std::string state{};
  std::string tag{};
  std::size_t limit = 20;
  bool all = false;
  bool watch = false;
  std::uint64_t rounds = 0;  ///< Of --watch; 0: until interrupted.
};

Result<Listing> fetch(ApiClient& client, const ListOptions& options) {
  const Query query = {{"group", options.group}, {"state", options.state}, {"tag", options.tag}};
  return list_pages(client, Operation::kListTasks, query, "tasks", options.all ? kMaxListed : options.limit);
}

std::string listing_text(const CommandContext& context, const Listing& listing) {
  if (listing.items.empty()) return "There are no such tasks.\n";
  const WallTime now = context.terminal.wall_clock->now();
  std::string out = task_table(listing.items, now).render(context.table_width(), context.style());
  if (!listing.cursor.empty() && context.terminal.is_terminal) {
    out += context.style().paint(Colour::kDim, "There are more; see --limit and --all.") + "\n";
  }
  return out;
}

Result<int> show_once(const CommandContext& context, ApiClient& client, const ListOptions& options) {
  const Result<Listing> listing = fetch(client, options);
  if (!listing) return listing.error();
  if (context.json) {
    context.print_json(listing->to_json("tasks"));
  } else {
    context.terminal.out << listing_text(context, *listing);
  }
  return kExitDone;
}

/// Over what was there: each line is cleared as it is written, and the rest after the last. So nothing flickers.
std::string frame_of(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text) {
    if (c == '\n') out += "\x1b[K";
    out += c;
  }
  return out + "\x1b[J";
}

void show_round(const CommandContext& context, const Result<Listing>& listing) {
  std::ostream& out = context.terminal.out;
  if (context.json && listing) {
    out << json_text(listing->to_json("tasks"), false) << "\n";
  } else if (!listing) {
    context.complain(listing.error().message);
  } else {
    const std::string text = listing_text(context, *listing);
    out << (context.terminal.is_terminal ? frame_of(text) : text + "\n");
  }
}

/// A second, in pieces, so that an interrupt is heeded soon.
void pause_a_round(const CommandContext& context, const Interrupt& interrupt) {
  for (int i = 0; i < 10 && !interrupt.requested(); ++i) context.pause(100ms);
}

Result<int> watch(const CommandContext& context, ApiClient& client, const ListOptions& options) {
  const Interrupt interrupt;
  if (context.terminal.is_terminal && !context.json) context.terminal.out << "\x1b[2J";
  for (std::uint64_t round = 1; !interrupt.requested(); ++round) {
    const Result<Listing> listing = fetch(client, options);
    if (!listing && (round == 1 || listing.error().code != ErrorCode::kUnavailable)) return listing.error();
    show_round(context, listing);
    if (round == options.rounds) break;
    pause_a_round(context, interrupt);
  }
  return kExitDone;
}

}  // namespace

void add_task_lists(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App* command =
      add_command(app, "tasks", "List tasks, newest first", "cohort tasks --group media --state failed");
  command->group("Tasks");
  command->add_option("--group", options->group, "Only of that group")->type_name("NAME");
  command->add_option("--state", options->state, "Only in that state, such as processing or failed")
      ->type_name("STATE")
      ->check(CLI::IsMember({"pending", "ready", "processing", "completed", "failed", "cancelled", "expired", "poison"})
                  .description(""));
  command->add_option("--tag", options->tag, "Only with that tag")->type_name("TAG");
  command->add_option("--limit", options->limit, "How many at most")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kMaxListed).description(""));
  command->add_flag("--all", options->all, "All of them")->excludes("--limit");
  command->add_flag("--watch", options->watch, "Again every second, until interrupted");
  command->add_option("--rounds", options->rounds, "Of --watch")->group("");
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) {
    return options->watch ? watch(shared, client, *options) : show_once(shared, client, *options);
  });
}

}  // namespace cohort
