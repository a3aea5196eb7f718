#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "api/body_json.h"
#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/table.h"

namespace cohort {

using nlohmann::json;

namespace {

struct GroupOptions {
  std::string group{};
  std::string reason{};
  std::uint32_t concurrency = 0;  ///< 0: not said, as with the others.
  std::uint32_t in_flight = 0;
  double weight = 0;
};
using SharedOptions = std::shared_ptr<GroupOptions>;

Table group_table(const json& groups) {
  const bool has_waits = std::ranges::any_of(groups, [](const json& each) { return each.contains("estimated_wait"); });
  std::vector<Table::Column> columns = {{.title = "GROUP", .shortens = true, .min_width = 10},
                                        {.title = "STATE", .min_width = 7},
                                        {.title = "READY", .is_number = true, .min_width = 5},
                                        {.title = "PROCESSING", .is_number = true, .min_width = 5},
                                        {.title = "RUNNING", .is_number = true, .min_width = 5},
                                        {.title = "LIMIT", .is_number = true, .min_width = 5},
                                        {.title = "WEIGHT", .is_number = true, .min_width = 5}};
  if (has_waits) columns.push_back({.title = "WAIT", .is_number = true, .min_width = 4});
  Table table(std::move(columns));
  for (const json& group : groups) {
    const std::string state = truth(group, "paused") ? "paused" : "running";
    std::vector<Table::Cell> row = {{shown(group, "group")},   {state, colour_of(state)},
                                    {shown(group, "ready")},   {shown(group, "processing")},
                                    {shown(group, "running")}, {shown(group, "max_concurrency")},
                                    {shown(group, "weight")}};
    if (has_waits) row.push_back({shown(group, "estimated_wait")});
    table.add_row(std::move(row));
  }
  return table;
}

void print_groups(const CommandContext& context, const json& groups) {
  if (groups.empty()) {
    context.terminal.out << "There are no groups yet; the first task of a group makes it.\n";
  } else {
    context.terminal.out << group_table(groups).render(context.table_width(), context.style());
  }
}

/// Shows what the node says of one group.
Result<int> print_group(const CommandContext& context, const Result<json>& group) {
  if (!group) return group.error();
  if (context.json) {
    context.print_json(*group);
  } else {
    print_groups(context, json::array({*group}));
  }
  return kExitDone;
}

Result<int> show(const CommandContext& context, ApiClient& client, const std::string& group) {
  if (!group.empty()) return print_group(context, client.ask(Operation::kGetGroup, {group}));
  const Result<json> answer = client.look(Operation::kListGroups);
  if (!answer) return answer.error();
  if (context.json) {
    context.print_json(*answer);
  } else {
    print_groups(context, list(*answer, "groups"));
  }
  return kExitDone;
}

Result<int> resize(const CommandContext& context, ApiClient& client, const GroupOptions& options) {
  body::Resize resize;
  if (options.concurrency > 0) resize.max_concurrency = options.concurrency;
  if (options.in_flight > 0) resize.max_in_flight = options.in_flight;
  if (options.weight > 0) resize.weight = options.weight;
  const json body = to_json_body(resize);
  if (body.empty()) return Error{ErrorCode::kInvalid, "say what to change: --concurrency, --in-flight or --weight"};
  return print_group(context, client.ask(Operation::kResizeGroup, {options.group}, body));
}

SharedOptions add_name(CLI::App* command, bool required) {
  auto options = std::make_shared<GroupOptions>();
  command->group("Groups");
  command->add_option("group", options->group, "The group")->type_name("GROUP")->required(required);
  return options;
}

void add_resize(CLI::App& app, const SharedContext& context) {
  CLI::App* command =
      add_command(app, "resize", "Change the limits of a group", "cohort resize media --concurrency 8 --weight 2");
  const SharedOptions options = add_name(command, true);
  constexpr std::uint32_t kMost = 1'000'000;
  command->add_option("--concurrency", options->concurrency, "How many of its tasks run at a time")
      ->type_name("N")
      ->check(CLI::Range(1U, kMost).description(""));
  command->add_option("--in-flight", options->in_flight, "How many run or wait for something")
      ->type_name("N")
      ->check(CLI::Range(1U, kMost).description(""));
  command->add_option("--weight", options->weight, "Its share, next to other groups")
      ->type_name("W")
      ->check(CLI::PositiveNumber.description(""));
  run_when_chosen(command, context,
                  [options](const auto& shared, ApiClient& client) { return resize(shared, client, *options); });
}

}  // namespace

void add_groups(CLI::App& app, const SharedContext& context) {
  CLI::App* groups = add_command(app, "groups", "List the groups, or show one", "cohort groups");
  run_when_chosen(groups, context, [options = add_name(groups, false)](const auto& shared, ApiClient& client) {
    return show(shared, client, options->group);
  });

  CLI::App* pause =
      add_command(app, "pause", "Let no more tasks of a group start", "cohort pause media --reason 'disk is full'");
  const SharedOptions paused = add_name(pause, true);
  pause->add_option("--reason", paused->reason, "Why; it is written to the node's log")->type_name("TEXT");
  run_when_chosen(pause, context, [paused](const auto& shared, ApiClient& client) {
    body::Reason reason;
    if (!paused->reason.empty()) reason.reason = paused->reason;
    return print_group(shared, client.ask(Operation::kPauseGroup, {paused->group}, to_json_body(reason)));
  });

  CLI::App* resume = add_command(app, "resume", "Let tasks of a group start again", "cohort resume media");
  run_when_chosen(resume, context, [options = add_name(resume, true)](const auto& shared, ApiClient& client) {
    return print_group(shared, client.ask(Operation::kResumeGroup, {options->group}));
  });

  add_resize(app, context);
}

}  // namespace cohort
