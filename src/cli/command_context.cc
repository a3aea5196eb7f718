#include "cli/command_context.h"

#include <algorithm>
#include <exception>
#include <ostream>
#include <thread>
#include <utility>

#include "cli/fields.h"
#include "cohort/base/text_time.h"

namespace cohort {

Style CommandContext::style() const { return {.colour = terminal.colour && !no_colour && !colour_is_unwanted()}; }

int CommandContext::line_width() const { return std::max(terminal.width, 40); }

int CommandContext::table_width() const { return terminal.is_terminal ? line_width() : 0; }

void CommandContext::pause(std::chrono::milliseconds time) const {
  terminal.out.flush();
  if (terminal.pause) return terminal.pause(time);
  std::this_thread::sleep_for(time);
}

void CommandContext::print_json(const nlohmann::json& value) const {
  terminal.out << json_text(value, terminal.is_terminal) << '\n';
}

void CommandContext::complain(const std::string& message) const {
  terminal.out.flush();
  terminal.error << "cohort: " << safe_text(message, Lines::kKeep) << std::endl;
}

int CommandContext::fail(const Error& error) const {
  complain(error.message);
  return exit_code_of(error);
}

ExitCode exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid: return kExitUsage;
    case ErrorCode::kUnavailable: return kExitUnreachable;
    case ErrorCode::kNotFound: return kExitNotFound;
    default: return kExitRefused;
  }
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& example) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->fallthrough();
  command->footer("Example:\n  " + example + "\n\nWith --node, --json and --no-colour as `cohort --help` has them.");
  return command;
}

void run_when_chosen(CLI::App* command, const SharedContext& context,
                     std::function<Result<int>(const CommandContext&, ApiClient&)> body) {
  command->callback([context, body = std::move(body)] {
    try {
      Result<ApiClient> client = ApiClient::make(context->node);
      const Result<int> code = client ? body(*context, *client) : Result<int>(client.error());
      context->exit_code = code ? *code : context->fail(code.error());
    } catch (const CLI::Error&) {
      throw;
    } catch (const std::exception& exception) {
      context->exit_code = context->fail({ErrorCode::kInternal, exception.what()});
    }
    context->terminal.out.flush();
  });
}

Result<nlohmann::json> call_with_id(ApiClient& client, std::string& id,
                                    const std::function<Result<nlohmann::json>(const std::string& id)>& call) {
  constexpr std::string_view kEllipsis = "\xE2\x80\xA6";
  if (id.ends_with(kEllipsis)) id.resize(id.size() - kEllipsis.size());
  if (id.empty()) return Error{ErrorCode::kInvalid, "the id of a task is empty"};
  Result<nlohmann::json> answer = call(id);
  if (answer || answer.error().code != ErrorCode::kNotFound) return answer;
  const Result<nlohmann::json> page = client.look(Operation::kListTasks, {{"id_prefix", id}, {"limit", "3"}});
  if (!page) return answer;  // What is wrong with the id says more.
  std::vector<std::string> found;
  for (const nlohmann::json& task : list(*page, "tasks")) found.push_back(raw_text(task, "id"));
  if (found.size() > 1) {
    std::string all;
    for (const std::string& each : found) all += (all.empty() ? "" : ", ") + each;
    return Error{ErrorCode::kInvalid, "more than one task has an id that begins with '" + id + "': " + all};
  }
  if (found.empty() || found[0] == id) return answer;
  id = found[0];
  return call(id);
}

int call_for_each(const CommandContext& context, ApiClient& client, const std::vector<std::string>& ids,
                  const std::function<Result<nlohmann::json>(const std::string& id)>& call,
                  const std::function<void(const std::string& id, const nlohmann::json& answer)>& show) {
  int first_code = kExitDone;
  for (std::string id : ids) {
    const Result<nlohmann::json> answer = call_with_id(client, id, call);
    if (!answer) {
      const int code = context.fail(answer.error());
      if (first_code == kExitDone) first_code = code;
      if (code == kExitUnreachable) return code;
    } else if (!context.json) {
      show(id, *answer);
    } else if (!answer->is_null()) {
      context.print_json(*answer);
    }
  }
  return first_code;
}

CLI::Validator duration_validator() {
  return {[](std::string& text) {
            const Result<Duration> duration = parse_duration(text);
            return duration ? std::string() : duration.error().message;
          },
          ""};
}

CLI::Validator time_validator() {
  return {[](std::string& text) {
            const Result<WallTime> time = parse_time(text);
            return time ? std::string() : time.error().message;
          },
          ""};
}

}  // namespace cohort
