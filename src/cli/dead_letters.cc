#include <istream>
#include <memory>
#include <ostream>

#include "api/body_json.h"
#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/paging.h"
#include "cli/table.h"
#include "cli/task_view.h"

namespace cohort {

using nlohmann::json;

namespace {

struct LetterOptions {
  std::vector<std::string> ids{};
  std::string group{};
  std::string state{};
  std::string plugin{};
  std::size_t limit = 20;
  bool all = false;
  bool dry_run = false;
  bool yes = false;
  std::uint32_t from_step = 0;
  std::string deadline{};
};
using SharedOptions = std::shared_ptr<LetterOptions>;

void add_filters(CLI::App* command, LetterOptions& options) {
  command->add_option("--group", options.group, "Only of that group")->type_name("NAME");
  command->add_option("--state", options.state, "Only of tasks that ended so")
      ->type_name("failed|expired|poison")
      ->check(CLI::IsMember({"failed", "expired", "poison"}).description(""));
  command->add_option("--plugin", options.plugin, "Only of that step's plugin")->type_name("NAME");
}

Table letter_table(const json& letters, WallTime now) {
  Table table({{.title = "TASK", .shortens = true, .min_width = 12},
               {.title = "GROUP", .shortens = true, .min_width = 8},
               {.title = "STATE", .min_width = 8},
               {.title = "STEP", .shortens = true, .min_width = 8},
               {.title = "TRIES", .is_number = true, .min_width = 5},
               {.title = "AGE", .is_number = true, .min_width = 4},
               {.title = "REASON", .shortens = true, .min_width = 10}});
  for (const json& letter : letters) {
    const std::string state = shown(letter, "state");
    table.add_row({{shown(letter, "task_id")},
                   {shown(letter, "group")},
                   {state, colour_of(state)},
                   {shown(letter, "step") + " " + shown(letter, "plugin")},
                   {shown(letter, "attempts")},
                   {age_text(raw_text(letter, "failed_at"), now)},
                   {shown(letter, "reason")}});
  }
  return table;
}

Result<int> list_letters(const CommandContext& context, ApiClient& client, const LetterOptions& options) {
  const Query query = {{"group", options.group}, {"state", options.state}, {"plugin", options.plugin}};
  const Result<Listing> listing =
      list_pages(client, Operation::kListDeadLetters, query, "dead_letters", options.all ? kMaxListed : options.limit);
  if (!listing) return listing.error();
  std::ostream& out = context.terminal.out;
  if (context.json) {
    context.print_json(listing->to_json("dead_letters"));
  } else if (listing->items.empty()) {
    out << "There are no such dead letters.\n";
  } else {
    out << letter_table(listing->items, context.terminal.wall_clock->now())
               .render(context.table_width(), context.style());
    if (!listing->cursor.empty() && context.terminal.is_terminal) out << "There are more; see --limit and --all.\n";
  }
  return kExitDone;
}

Result<int> show_letter(const CommandContext& context, ApiClient& client, std::string id) {
  const auto get = [&](const std::string& each) { return client.ask(Operation::kGetDeadLetter, {each}); };
  const Result<json> letter = call_with_id(client, id, get);
  if (!letter) return letter.error();
  if (context.json) {
    context.print_json(*letter);
    return kExitDone;
  }
  std::ostream& out = context.terminal.out;
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out << pad_right(label, 11) << text << "\n";
  };
  const std::string state = shown(*letter, "state");
  line("Task", context.style().paint(Colour::kBold, shown(*letter, "task_id")));
  line("State", context.style().paint(colour_of(state), state));
  line("Group", shown(*letter, "group"));
  line("Step", shown(*letter, "step") + " " + shown(*letter, "plugin"));
  line("Attempts", shown(*letter, "attempts"));
  line("Failed", shown(*letter, "failed_at"));
  line("Node", shown(*letter, "node"));
  line("Reason", shown(*letter, "reason"));
  line("Original", shown(*letter, "original"));
  const std::string log = log_text(*letter, 0);
  if (!log.empty()) out << "\n" << context.style().paint(Colour::kBold, "Log") << "\n" << log;
  return kExitDone;
}

Result<int> replay_all(const CommandContext& context, ApiClient& client, const LetterOptions& options) {
  body::ReplayFilter filter{.limit = options.limit};
  if (!options.group.empty()) filter.group = options.group;
  if (!options.state.empty()) filter.state = options.state;
  if (!options.plugin.empty()) filter.plugin = options.plugin;
  if (options.dry_run) filter.dry_run = true;
  const Result<json> answer = client.ask(Operation::kReplayDeadLetters, {}, to_json_body(filter));
  if (!answer) return answer.error();
  const json& failed = list(*answer, "failed");
  if (context.json) context.print_json(*answer);
  for (const json& each : failed) context.complain("'" + raw_text(each, "task") + "': " + raw_text(each, "detail"));
  if (!context.json) {
    const std::string matched = counted(whole(*answer, "matched"), "dead letter");
    const std::string replayed = std::to_string(whole(*answer, "replayed"));
    context.terminal.out << (options.dry_run ? matched + " would be replayed:\n"
                                             : replayed + " of " + matched + " replayed\n");
    for (const json& id : list(*answer, "tasks")) {
      if (id.is_string()) context.terminal.out << "  " << safe_text(id.get_ref<const std::string&>()) << "\n";
    }
  }
  return failed.empty() ? kExitDone : kExitRefused;
}

Result<int> replay(const CommandContext& context, ApiClient& client, const LetterOptions& options) {
  const bool has_filter = !(options.group + options.state + options.plugin).empty() || options.dry_run;
  if (options.all == !options.ids.empty())
    return Error{ErrorCode::kInvalid, "name the tasks to replay, or write --all"};
  if (!options.all && has_filter) {
    return Error{ErrorCode::kInvalid, "--group, --state, --plugin and --dry-run go with --all, not with named tasks"};
  }
  const json body = restart_body(options.from_step, options.deadline);
  if (options.all && !body.empty()) {
    return Error{ErrorCode::kInvalid, "--from-step and --deadline go with named tasks, not with --all"};
  }
  if (options.all) return replay_all(context, client, options);
  const auto call = [&](const std::string& id) { return client.ask(Operation::kReplayDeadLetter, {id}, body); };
  return call_for_each(context, client, options.ids, call, [&](const std::string& id, const json& task) {
    context.terminal.out << safe_text(id) << "  " << shown(task, "state") << "  step " << step_text(task) << "\n";
  });
}

/// Asks, where there is somebody to ask.
Result<bool> may_discard(const CommandContext& context, std::size_t count) {
  Terminal& terminal = context.terminal;
  if (!terminal.is_terminal || terminal.in == nullptr) {
    return Error{ErrorCode::kInvalid, "dead letters are discarded for good; without a terminal write --yes"};
  }
  terminal.out << "Discard " << counted(count, "dead letter") << " for good? [y/N] " << std::flush;
  std::string answer;
  std::getline(*terminal.in, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Result<int> discard(const CommandContext& context, ApiClient& client, const LetterOptions& options) {
  if (!options.yes) {
    const Result<bool> agreed = may_discard(context, options.ids.size());
    if (!agreed) return agreed.error();
    if (!*agreed) return Error{ErrorCode::kCancelled, "nothing was discarded"};
  }
  const auto call = [&](const std::string& id) { return client.ask(Operation::kDiscardDeadLetter, {id}); };
  return call_for_each(context, client, options.ids, call, [&](const std::string& id, const json&) {
    context.terminal.out << safe_text(id) << "  discarded\n";
  });
}

CLI::App* add_list(CLI::App& parent, const SharedOptions& options) {
  CLI::App* command =
      add_command(parent, "list", "List dead letters", "cohort dead-letters list --group media --plugin resize");
  add_filters(command, *options);
  command->add_option("--limit", options->limit, "How many at most")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, kMaxListed).description(""));
  command->add_flag("--all", options->all, "All of them")->excludes("--limit");
  return command;
}

CLI::App* add_replay(CLI::App& parent, const SharedOptions& options) {
  CLI::App* command = add_command(parent, "replay", "Run tasks again that have a dead letter",
                                  "cohort dead-letters replay --all --group media --dry-run");
  command->add_option("tasks", options->ids, "The tasks")->type_name("TASK");
  command->add_flag("--all", options->all, "All that the filters let through, instead of named ones");
  add_filters(command, *options);
  options->limit = 100;
  command->add_option("--limit", options->limit, "Of --all: how many at most")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""));
  command->add_flag("--dry-run", options->dry_run, "Of --all: only say which");
  command
      ->add_option("--from-step", options->from_step,
                   "The step to begin with, counted from 1; else the one that failed")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  command->add_option("--deadline", options->deadline, "How long it may take from now")
      ->check(duration_validator())
      ->type_name("DURATION");
  return command;
}

}  // namespace

void add_dead_letters(CLI::App& app, const SharedContext& context) {
  CLI::App* parent = add_command(app, "dead-letters", "See to tasks that failed for good", "cohort dead-letters list");
  parent->group("Dead letters");
  parent->require_subcommand(1);
  const auto listed = std::make_shared<LetterOptions>();
  run_when_chosen(add_list(*parent, listed), context,
                  [listed](const auto& shared, ApiClient& client) { return list_letters(shared, client, *listed); });
  const auto id = std::make_shared<std::string>();
  CLI::App* show = add_command(*parent, "show", "Show all of a dead letter", "cohort dead-letters show 01JD6Q2V");
  show->add_option("task", *id, "The task")->type_name("TASK")->required();
  run_when_chosen(show, context,
                  [id](const auto& shared, ApiClient& client) { return show_letter(shared, client, *id); });
  const auto replayed = std::make_shared<LetterOptions>();
  run_when_chosen(add_replay(*parent, replayed), context,
                  [replayed](const auto& shared, ApiClient& client) { return replay(shared, client, *replayed); });
  const auto discarded = std::make_shared<LetterOptions>();
  CLI::App* remove =
      add_command(*parent, "discard", "Remove dead letters for good", "cohort dead-letters discard 01JD6Q2V --yes");
  remove->add_option("tasks", discarded->ids, "The tasks")->type_name("TASK")->required();
  remove->add_flag("--yes", discarded->yes, "Do not ask");
  run_when_chosen(remove, context,
                  [discarded](const auto& shared, ApiClient& client) { return discard(shared, client, *discarded); });
}

}  // namespace cohort
