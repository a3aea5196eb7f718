#include "cli/task_input.h"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "cli/client.h"
#include "cli/fields.h"
#include "cohort/base/percent.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxInputBytes = 256U << 20U;
constexpr std::size_t kMaxBatch = 500;
constexpr std::size_t kMaxBatchBytes = 4U << 20U;

Error invalid(std::string message) { return {ErrorCode::kInvalid, std::move(message)}; }

Result<std::string> read_all(std::istream& in, const std::string& name) {
  std::string text;
  std::string piece(64U << 10U, '\0');
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    text.append(piece, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxInputBytes) return invalid(name + " has more than 256 MiB; cut it into several files");
  }
  return text;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path, error)) return invalid("the file '" + path + "' cannot be read");
  return read_all(in, "the file '" + path + "'");
}

Result<json> json_of(const std::string& text, const std::string& name) {
  Result<json> value = parse_json(text);
  if (!value) return invalid(name + " cannot be used: " + value.error().message);
  return value;
}

Result<json> payload_of(const std::string& payload) {
  if (!payload.starts_with('@')) return json_of(payload, "--payload");
  const Result<std::string> text = read_file(payload.substr(1));
  if (!text) return text.error();
  return json_of(*text, "the payload in '" + payload.substr(1) + "'");
}

Result<json> step_of(const std::string& step) {
  const std::size_t colon = step.find(':');
  json out = {{"plugin", step.substr(0, colon)}};
  if (step.empty() || colon == 0) return invalid("--step '" + step + "' names no plugin; write PLUGIN or PLUGIN:{...}");
  if (colon == std::string::npos) return out;
  Result<json> parameters =
      json_of(step.substr(colon + 1), "what follows '" + step.substr(0, colon + 1) + "' in --step");
  if (!parameters) return parameters.error();
  if (!parameters->is_object()) return invalid("the parameters in --step '" + step + "' must be an object, {...}");
  out["parameters"] = *std::move(parameters);
  return out;
}

/// {"width": "200"} of "width=200". Values stay text: the node knows the types of the parameters.
Result<json> parameters_of(const std::vector<std::string>& assignments) {
  json out = json::object();
  for (const std::string& each : assignments) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return invalid("--param '" + each + "' gives no value; write NAME=VALUE");
    }
    const auto [at, is_new] = out.emplace(each.substr(0, equals), each.substr(equals + 1));
    if (!is_new) return invalid("--param gives '" + at.key() + "' twice");
  }
  return out;
}

/// The path with all but '/' percent-encoded.
std::string file_url(const std::filesystem::path& path) {
  std::string out = "file://";
  for (const std::filesystem::path& part : path.relative_path()) out += "/" + percent_encode(part.string());
  return out;
}

std::string file_reference(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return file;
  const std::filesystem::path absolute = std::filesystem::absolute(file, error);
  return error ? file : file_url(absolute.lexically_normal());
}

}  // namespace

bool TaskInput::empty() const {
  return steps.empty() && tags.empty() && parameters.empty() &&
         (group + chain + file + payload + priority + deadline + start_at + id + key + session).empty();
}

Result<json> task_from_input(const TaskInput& input) {
  json task = {{"group", input.group}};
  const std::pair<const char*, const std::string*> texts[] = {
      {"priority", &input.priority},   {"deadline", &input.deadline}, {"start_at", &input.start_at}, {"id", &input.id},
      {"idempotency_key", &input.key}, {"session", &input.session},   {"chain", &input.chain}};
  for (const auto& [key, text] : texts) {
    if (!text->empty()) task[key] = *text;
  }
  if (!input.file.empty()) task["file"] = file_reference(input.file);
  if (!input.tags.empty()) task["tags"] = input.tags;
  if (!input.payload.empty()) {
    Result<json> payload = payload_of(input.payload);
    if (!payload) return payload.error();
    task["payload"] = *std::move(payload);
  }
  if (!input.parameters.empty()) {
    Result<json> parameters = parameters_of(input.parameters);
    if (!parameters) return parameters.error();
    task["parameters"] = *std::move(parameters);
  }
  for (const std::string& each : input.steps) {
    Result<json> step = step_of(each);
    if (!step) return step.error();
    task["steps"].push_back(*std::move(step));
  }
  return task;
}

Result<TaskFile> read_task_file(const std::string& path, std::istream* in) {
  const bool is_standard = path == "-";
  const std::string name = is_standard ? "standard input" : "the file '" + path + "'";
  if (is_standard && in == nullptr) return invalid("there is no standard input to read tasks from");
  const Result<std::string> text = is_standard ? read_all(*in, name) : read_file(path);
  if (!text) return text.error();
  Result<json> value = json_of(*text, name);
  if (!value) return value.error();
  const bool is_wrapped = value->is_object() && value->contains("tasks");
  if (value->is_object() && !is_wrapped) return TaskFile{.tasks = {*std::move(value)}, .is_single = true};
  const json& tasks = is_wrapped ? (*value)["tasks"] : *value;
  if (!tasks.is_array()) return invalid(name + " holds no task; write one task, a list, or {\"tasks\": [...]}");
  if (tasks.empty()) return invalid(name + " holds an empty list of tasks");
  return TaskFile{.tasks = tasks.get<std::vector<json>>(), .is_single = false};
}

std::vector<json> batches_of(const std::vector<json>& tasks) {
  std::vector<json> batches;
  std::size_t bytes = 0;
  for (const json& task : tasks) {
    const std::size_t size = task.dump(-1, ' ', false, json::error_handler_t::replace).size();
    const bool begins = batches.empty() || batches.back()["tasks"].size() == kMaxBatch || bytes + size > kMaxBatchBytes;
    if (begins) {
      batches.push_back({{"tasks", json::array()}});
      bytes = 0;
    }
    batches.back()["tasks"].push_back(task);
    bytes += size;
  }
  return batches;
}

}  // namespace cohort
