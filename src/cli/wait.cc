#include "cli/wait.h"

#include <ostream>

#include "cli/fields.h"
#include "cli/progress.h"
#include "cli/task_view.h"
#include "cohort/base/text_time.h"

namespace cohort {

using nlohmann::json;

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPoll = 200ms;
constexpr int kMaxLosses = 50;  // Ten seconds: time enough for a node to be restarted.

/// The task at its end, whatever that is.
Result<json> follow(const CommandContext& context, ApiClient& client, const std::string& id, Time until) {
  ProgressView view(context.terminal.out, context.terminal.is_terminal, context.line_width(), context.style());
  int losses = 0;
  for (;;) {
    Result<json> task = client.ask(Operation::kGetTask, {id});
    losses = task ? 0 : losses + 1;
    const bool is_loss = !task && task.error().retryable();
    if (!task && (!is_loss || losses > kMaxLosses)) return task.error();
    if (task && !context.json) view.show(*task);
    if (task && is_final(*task)) return task;
    if (context.terminal.clock->now() >= until) {
      return Error{ErrorCode::kTimedOut,
                   "task '" + id + "' goes on, but --timeout is over; see `cohort task " + id + "`"};
    }
    context.pause(kPoll);
  }
}

void tell_completed(const CommandContext& context, const json& task) {
  context.terminal.out << context.style().paint(Colour::kGreen, "completed") << " " << shown(task, "id") << "\n"
                       << outputs_text(task);
}

void tell_failed(const CommandContext& context, const json& task) {
  const std::string error = raw_text(task, "error");
  context.complain("task '" + raw_text(task, "id") + "' is " + raw_text(task, "state") + " at step " + step_text(task) +
                   (error.empty() ? "" : ": " + error));
  const std::string log = log_text(task, kLogTail);
  if (!log.empty()) context.terminal.error << "The end of its log:\n" << log << std::flush;
}

}  // namespace

int wait_for_tasks(const CommandContext& context, ApiClient& client, const std::vector<std::string>& ids,
                   std::optional<Duration> timeout) {
  const Time until = timeout ? saturating_add(context.terminal.clock->now(), *timeout) : Time::max();
  int first_code = kExitDone;
  json ends = json::array();
  for (const std::string& id : ids) {
    Result<json> task = follow(context, client, id, until);
    const bool completed = task && raw_text(*task, "state") == "completed";
    if (!task) {
      const int code = context.fail(task.error());
      if (first_code == kExitDone) first_code = code;
      if (code == kExitUnreachable) break;
      continue;
    }
    if (!completed && first_code == kExitDone) first_code = kExitRefused;
    if (!completed) tell_failed(context, *task);
    if (completed && !context.json) tell_completed(context, *task);
    if (context.json) ends.push_back(*std::move(task));
  }
  if (context.json && !ends.empty()) context.print_json(ids.size() == 1 ? ends[0] : json{{"tasks", ends}});
  return first_code;
}

}  // namespace cohort
