#include <memory>
#include <ostream>

#include "api/body_json.h"
#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/task_view.h"

namespace cohort {

using nlohmann::json;

namespace {

struct CallOptions {
  std::vector<std::string> ids{};
  std::string reason{};
  std::uint32_t from_step = 0;  ///< From 1; 0: not said.
  std::string deadline{};
};

void add_ids(CLI::App* command, CallOptions& options) {
  command->add_option("ids", options.ids, "The tasks")->type_name("ID")->required();
}

void add_show(CLI::App& app, const SharedContext& context) {
  const auto id = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "task", "Show all of a task", "cohort task 01JD6Q2V");
  command->group("Tasks");
  command->add_option("id", *id, "The task")->type_name("ID")->required();
  run_when_chosen(command, context, [id](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const auto get = [&](const std::string& each) { return client.ask(Operation::kGetTask, {each}); };
    const Result<json> task = call_with_id(client, *id, get);
    if (!task) return task.error();
    if (shared.json) {
      shared.print_json(*task);
      return kExitDone;
    }
    const Result<json> attempts = client.ask(Operation::kGetAttempts, {*id});
    const WallTime now = shared.terminal.wall_clock->now();
    shared.terminal.out << task_text(*task, attempts ? list(*attempts, "attempts") : json::array(), now,
                                     shared.line_width(), shared.style());
    return kExitDone;
  });
}

void add_ready(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<CallOptions>();
  CLI::App* command =
      add_command(app, "ready", "Let tasks run that were submitted as pending", "cohort ready 01JD6Q2V");
  command->group("Tasks");
  add_ids(command, *options);
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const auto call = [&](const std::string& id) { return client.ask(Operation::kReadyTask, {id}); };
    return call_for_each(shared, client, options->ids, call, [&](const std::string& id, const json& task) {
      shared.terminal.out << safe_text(id) << "  " << shown(task, "state") << "\n";
    });
  });
}

void add_cancel(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<CallOptions>();
  CLI::App* command = add_command(app, "cancel", "Cancel tasks", "cohort cancel 01JD6Q2V --reason 'wrong file'");
  command->group("Tasks");
  add_ids(command, *options);
  command->add_option("--reason", options->reason, "Why; it is kept with the task")->type_name("TEXT");
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) -> Result<int> {
    body::Reason reason;
    if (!options->reason.empty()) reason.reason = options->reason;
    const json body = to_json_body(reason);
    const auto call = [&](const std::string& id) { return client.ask(Operation::kCancelTask, {id}, body); };
    return call_for_each(shared, client, options->ids, call, [&](const std::string& id, const json& answer) {
      const bool is_asked = truth(answer, "cancel_requested") && shown(answer, "state") != "cancelled";
      shared.terminal.out << safe_text(id) << "  " << shown(answer, "state")
                          << (is_asked ? "  (it was asked to stop)" : "") << "\n";
    });
  });
}

void add_retry(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<CallOptions>();
  CLI::App* command =
      add_command(app, "retry", "Run tasks again that have failed", "cohort retry 01JD6Q2V --from-step 1");
  command->group("Tasks");
  add_ids(command, *options);
  command
      ->add_option("--from-step", options->from_step,
                   "The step to begin with, counted from 1; else the one that failed")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000).description(""));
  command->add_option("--deadline", options->deadline, "How long it may take from now")
      ->check(duration_validator())
      ->type_name("DURATION");
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const json body = restart_body(options->from_step, options->deadline);
    const auto call = [&](const std::string& id) { return client.ask(Operation::kRetryTask, {id}, body); };
    return call_for_each(shared, client, options->ids, call, [&](const std::string& id, const json& task) {
      shared.terminal.out << safe_text(id) << "  " << shown(task, "state") << "  step " << step_text(task) << "\n";
    });
  });
}

void add_explain(CLI::App& app, const SharedContext& context) {
  const auto id = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "explain", "Say why a task is where it is", "cohort explain 01JD6Q2V");
  command->group("Tasks");
  command->add_option("id", *id, "The task")->type_name("ID")->required();
  run_when_chosen(command, context, [id](const CommandContext& shared, ApiClient& client) -> Result<int> {
    const auto get = [&](const std::string& each) { return client.ask(Operation::kExplainTask, {each}); };
    const Result<json> answer = call_with_id(client, *id, get);
    if (!answer) return answer.error();
    if (shared.json) {
      shared.print_json(*answer);
      return kExitDone;
    }
    shared.terminal.out << safe_text(raw_text(*answer, "text"), Lines::kKeep) << "\n";
    for (const json& reason : list(*answer, "reasons")) {
      if (reason.is_string()) shared.terminal.out << "  - " << safe_text(reason.get_ref<const std::string&>()) << "\n";
    }
    return kExitDone;
  });
}

}  // namespace

void add_task_calls(CLI::App& app, const SharedContext& context) {
  add_show(app, context);
  add_ready(app, context);
  add_cancel(app, context);
  add_retry(app, context);
  add_explain(app, context);
}

}  // namespace cohort
