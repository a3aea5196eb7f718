#include <memory>
#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/paging.h"
#include "cli/task_view.h"
#include "cli/task_watch.h"

namespace cohort {

using nlohmann::json;

namespace {

std::string listing_text(const CommandContext& context, const Listing& listing) {
  if (listing.items.empty()) return "There are no such tasks.\n";
  const WallTime now = context.terminal.wall_clock->now();
  std::string out = task_table(listing.items, now).render(context.table_width(), context.style());
  if (!listing.cursor.empty() && context.terminal.is_terminal) {
    out += context.style().paint(Colour::kDim, "There are more; see --limit and --all.") + "\n";
  }
  return out;
}

Result<int> show_once(const CommandContext& context, ApiClient& client, const TaskListOptions& options) {
  const Result<Listing> listing = list_tasks(client, options, options.state, options.all ? kMaxListed : options.limit);
  if (!listing) return listing.error();
  if (context.json) {
    context.print_json(listing->to_json("tasks"));
  } else {
    context.terminal.out << listing_text(context, *listing);
  }
  return kExitDone;
}

}  // namespace

void add_task_lists(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<TaskListOptions>();
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
  command->add_flag("--watch", options->watch,
                    "Every second, until interrupted: totals, running tasks first, as many as the window holds");
  command->add_option("--rounds", options->rounds, "Of --watch")->group("");
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) {
    return options->watch ? watch_tasks(shared, client, *options) : show_once(shared, client, *options);
  });
}

}  // namespace cohort
