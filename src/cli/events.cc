#include <memory>
#include <optional>
#include <ostream>

#include "cli/command_context.h"
#include "cli/fields.h"
#include "cli/interrupt.h"
#include "cli/sse_reader.h"

namespace cohort {

using nlohmann::json;

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kBackoff = 1s;
constexpr std::uint64_t kRetriesOfAProgram = 5;

struct EventOptions {
  std::optional<std::uint64_t> after{};
  std::string group{};
  std::string task{};
  std::uint64_t count = 0;  ///< 0: no end.
  std::optional<std::uint64_t> retries{};
};

/// Follows the stream over losses of the connection, until it is told to end.
class EventFollower {
 public:
  EventFollower(const CommandContext& context, ApiClient& client, const EventOptions& options)
      : context_(context), client_(client), options_(options) {}

  Result<int> run();

 private:
  bool take(const SseEvent& event);
  void print(const std::string& kind, const json& data);
  /// False: no more tries are left.
  bool wait_before_retry(const std::string& reason);

  const CommandContext& context_;
  ApiClient& client_;
  const EventOptions& options_;
  const Interrupt interrupt_{};
  SseReader reader_{};
  std::uint64_t seen_ = 0;
  std::uint64_t losses_ = 0;  ///< Since the last event.
};

Result<int> EventFollower::run() {
  const Query query = {{"after", options_.after ? std::to_string(*options_.after) : ""},
                       {"group", options_.group},
                       {"task", options_.task}};
  const auto sink = [this](std::string_view bytes) {
    return reader_.feed(bytes, [this](const SseEvent& event) { return take(event); });
  };
  for (bool was_connected = false;;) {
    reader_.restart();
    const Result<ApiClient::StreamEnd> end =
        client_.stream(Operation::kStreamEvents, query, reader_.last_event_id(), interrupt_.token(), sink);
    if (end && end->wanted) return kExitDone;
    const bool may_pass = end || (was_connected && end.error().code != ErrorCode::kNotFound);
    if (!may_pass) return end.error();
    was_connected = true;
    const std::string reason = end ? end->reason : end.error().message;
    if (!wait_before_retry(reason))
      return Error{ErrorCode::kUnavailable, "the events of " + client_.node() + " were lost: " + reason};
    if (interrupt_.requested()) return kExitDone;
  }
}

bool EventFollower::wait_before_retry(const std::string& reason) {
  const bool is_unlimited = !options_.retries && context_.terminal.is_terminal;
  if (!is_unlimited && losses_ >= options_.retries.value_or(kRetriesOfAProgram)) return false;
  ++losses_;
  context_.complain(reason + "; asking again");
  for (auto left = kBackoff; left > 0ms && !interrupt_.requested(); left -= 100ms) context_.pause(100ms);
  return true;
}

bool EventFollower::take(const SseEvent& event) {
  losses_ = 0;
  const Result<json> data = parse_json(event.data);
  print(event.kind, data ? *data : json());
  if (event.kind != "gap") ++seen_;
  return options_.count == 0 || seen_ < options_.count;
}

void EventFollower::print(const std::string& kind, const json& data) {
  std::ostream& out = context_.terminal.out;
  if (context_.json) {
    // A gap says what it is by its kind alone, so that is put into the object.
    json line = data;
    if (line.is_object() && !line.contains("kind")) line["kind"] = kind;
    out << json_text(line, false) << std::endl;
    return;
  }
  const std::string safe_kind = pad_right(safe_text(kind), 14);
  out << context_.style().paint(colour_of(kind), safe_kind) << "  ";
  if (kind == "gap") {
    out << "events " << shown(data, "from") << " to " << shown(data, "to") << " were forgotten" << std::endl;
    return;
  }
  out << shown(data, "at") << "  " << shown(data, "group") << "  " << shown(data, "task_id");
  if (kind == "step_completed" || kind == "failed") out << "  step " << shown(data, "step");
  const std::string detail = shown(data, "detail");
  out << (detail.empty() ? "" : "  " + detail) << std::endl;
}

}  // namespace

void add_events(CLI::App& app, const SharedContext& context) {
  const auto options = std::make_shared<EventOptions>();
  CLI::App* command =
      add_command(app, "events", "Follow what happens, one line an event", "cohort events --group media");
  command->group("Node");
  command->add_option("--after", options->after, "Also those after that sequence number; 0: from the oldest kept")
      ->type_name("N");
  command->add_option("--group", options->group, "Only of that group")->type_name("NAME");
  command->add_option("--task", options->task, "Only of that task")->type_name("ID");
  command->add_option("--count", options->count, "End after so many")->type_name("N");
  command
      ->add_option("--retries", options->retries,
                   "How often in a row to ask again after a loss; on a terminal without end, else 5 times")
      ->type_name("N");
  run_when_chosen(command, context, [options](const CommandContext& shared, ApiClient& client) -> Result<int> {
    if (!options->task.empty()) {
      // The whole id, of the beginning that was typed. An unknown one may be of a task that is gone.
      const auto found = call_with_id(client, options->task,
                                      [&](const std::string& id) { return client.ask(Operation::kGetTask, {id}); });
      if (!found && found.error().code != ErrorCode::kNotFound) return found.error();
    }
    return EventFollower(shared, client, *options).run();
  });
}

}  // namespace cohort
