#include <memory>
#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/task_input.h"
#include "cli/wait.h"
#include "cohort/base/text_time.h"

namespace cohort {

using nlohmann::json;

namespace {

struct SubmitArguments {
  TaskInput task{};
  std::string path{};
  bool wait = false;
  std::string timeout{};
};

/// What the node said of tasks, in order: {"id", "state", "existed"} or {"error": {…}} each.
struct Submitted {
  json results = json::array();
  bool is_single = false;
};

Result<Submitted> submit_one(ApiClient& client, const json& task) {
  Result<json> answer = client.ask(Operation::kSubmitTasks, {}, task);
  if (!answer) return answer.error();
  Submitted submitted{.results = json::array(), .is_single = true};
  submitted.results.push_back(*std::move(answer));
  return submitted;
}

Result<Submitted> submit_many(ApiClient& client, const std::vector<json>& tasks) {
  Submitted submitted;
  for (const json& batch : batches_of(tasks)) {
    const Result<json> answer = client.ask(Operation::kSubmitTasks, {}, batch);
    if (!answer) {
      const std::size_t done = submitted.results.size();
      const std::string how_far =
          done == 0 ? "" : "after " + counted(done, "task") + " of " + std::to_string(tasks.size()) + ": ";
      return Error{answer.error().code, how_far + answer.error().message};
    }
    for (const json& each : list(*answer, "results")) submitted.results.push_back(each);
  }
  return submitted;
}

Result<Submitted> submit(const CommandContext& context, ApiClient& client, const SubmitArguments& options) {
  if (options.path.empty()) {
    if (options.task.group.empty()) {
      return Error{ErrorCode::kInvalid, "a task needs a group: write --group NAME, or give a file with tasks"};
    }
    const Result<json> task = task_from_input(options.task);
    return task ? submit_one(client, *task) : Result<Submitted>(task.error());
  }
  if (!options.task.empty()) {
    return Error{ErrorCode::kInvalid, "a file with tasks and options that describe one cannot be used together"};
  }
  const Result<TaskFile> file = read_task_file(options.path, context.terminal.in);
  if (!file) return file.error();
  return file->is_single ? submit_one(client, file->tasks.front()) : submit_many(client, file->tasks);
}

void tell_accepted(const CommandContext& context, const json& result) {
  const std::string state = shown(result, "state");
  const std::string deadline = shown(result, "deadline");
  context.terminal.out << shown(result, "id") << "  " << context.style().paint(colour_of(state), state)
                       << (truth(result, "existed") ? "  (it existed)" : "")
                       << (deadline.empty() ? "" : "  (deadline " + deadline + ")") << "\n";
  const std::string warning = raw_text(result, "warning");
  if (!warning.empty()) context.complain("warning: " + warning);
}

/// The ids of those that were taken; each of the others is told.
std::vector<std::string> accepted_of(const CommandContext& context, const json& results) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const json& problem = member(results[i], "error");
    if (problem.is_null()) {
      ids.push_back(raw_text(results[i], "id"));
    } else {
      context.complain("task " + std::to_string(i + 1) + " of " + std::to_string(results.size()) +
                       " was refused: " + raw_text(problem, "detail"));
    }
  }
  return ids;
}

Result<int> run(const CommandContext& context, ApiClient& client, const SubmitArguments& options) {
  const Result<Submitted> submitted = submit(context, client, options);
  if (!submitted) return submitted.error();
  const json& results = submitted->results;
  if (context.json && !options.wait) context.print_json(submitted->is_single ? results[0] : json{{"results", results}});
  const std::vector<std::string> ids = accepted_of(context, results);
  if (!context.json) {
    for (const json& each : results) {
      if (member(each, "error").is_null()) tell_accepted(context, each);
    }
  }
  int code = ids.size() == results.size() ? kExitDone : kExitRefused;
  if (!options.wait) return code;
  std::optional<Duration> timeout;
  if (!options.timeout.empty()) timeout = *parse_duration(options.timeout);
  const int waited = wait_for_tasks(context, client, ids, timeout);
  return waited == kExitDone ? code : waited;
}

}  // namespace

void add_submit(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<SubmitArguments>();
  TaskInput& task = options->task;
  CLI::App* command =
      add_command(app, "submit", "Submit a task, or a file with tasks",
                  "cohort submit --group media --file cat.jpg --step sha256 --step 'resize:{\"width\":320}' --wait");
  command->group("Tasks");
  command->add_option("tasks", options->path, "A file with one task or a list of them; - for standard input")
      ->type_name("FILE");
  command->add_option("--group", task.group, "The group that the task belongs to")->type_name("NAME");
  command->add_option("--file", task.file, "What the steps work on: a path or a URL")->type_name("REF");
  command->add_option("--payload", task.payload, "What the steps are given")->type_name("JSON|@FILE");
  command->add_option("--step", task.steps, "A step and its parameters; once for each, in order")
      ->type_name("PLUGIN[:JSON]")
      ->allow_extra_args(false);
  command->add_option("--chain", task.chain, "A chain that the node's configuration names, instead of steps")
      ->type_name("NAME")
      ->excludes("--step");
  command->add_option("--param", task.parameters, "A value for a parameter of that chain; once for each")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->needs("--chain");
  command->add_option("--tag", task.tags, "A word to find it by; once for each")
      ->type_name("TAG")
      ->allow_extra_args(false);
  command->add_option("--priority", task.priority, "How soon, within its group")
      ->check(CLI::IsMember({"high", "normal", "low"}).description(""))
      ->type_name("high|normal|low");
  command->add_option("--deadline", task.deadline, "How long it may take in all, such as 1h")
      ->check(duration_validator())
      ->type_name("DURATION");
  command->add_option("--start-at", task.start_at, "Not before, such as 2026-11-16T05:00:00Z")
      ->check(time_validator())
      ->type_name("TIME");
  command->add_option("--id", task.id, "Its id; else the node makes one")->type_name("ID");
  command->add_option("--key", task.key, "An idempotency key: submitted twice, it runs once")->type_name("KEY");
  command->add_option("--session", task.session, "The session that it belongs to")->type_name("ID");
  command->add_flag("--wait", options->wait, "Show its progress, and end when it ends");
  command->add_option("--timeout", options->timeout, "How long to wait at most")
      ->check(duration_validator())
      ->type_name("DURATION")
      ->needs("--wait");
  run_when_chosen(command, context,
                  [options](const CommandContext& shared, ApiClient& client) { return run(shared, client, *options); });
}

}  // namespace cohort
