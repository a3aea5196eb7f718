#include "backend/task_text.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cohort/base/utf8.h"
#include "store/request_fields.h"

namespace cohort::backend {

using nlohmann::json;

namespace {

// The text has a number of its own, because a row is written anew without its request. Version 0.1 wrote none, and
// called the steps `callbacks`.
constexpr int kTextFormat = 3;

constexpr auto kReplace = json::error_handler_t::replace;  // Not UTF-8: kept as readable as it can be.

json policy_json(const RetryPolicy& policy) {
  return {{"max_retries", policy.max_retries},
          {"backoff_ns", policy.backoff.count()},
          {"multiplier", policy.multiplier},
          {"max_backoff_ns", policy.max_backoff.count()},
          {"jitter", policy.jitter}};
}

// A whole number, within int64: nothing of the file is converted on trust.
std::int64_t integer(const json& from, const char* key) {
  const json& value = from.at(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62U);
  if (!fits) throw Damaged(std::string("'") + key + "' of the request is not a number in its range");
  return value.get<std::int64_t>();
}

RetryPolicy read_policy(const json& from) {
  const std::int64_t retries = integer(from, "max_retries");
  if (retries < 0 || retries > 1'000'000'000) throw Damaged("'max_retries' of the request is not in its range");
  return {.max_retries = static_cast<std::uint32_t>(retries),
          .backoff = Duration(integer(from, "backoff_ns")),
          .multiplier = from.at("multiplier"),
          .max_backoff = Duration(integer(from, "max_backoff_ns")),
          .jitter = from.at("jitter")};
}

}  // namespace

namespace {

json steps_json(const std::vector<ChainStep>& from) {
  json steps = json::array();
  for (const ChainStep& each : from) {
    json step = {{"plugin", each.plugin}, {"parameters", each.parameters}};
    if (each.timeout) step["timeout_ns"] = each.timeout->count();
    if (each.retry) step["retry"] = policy_json(*each.retry);
    steps.push_back(std::move(step));
  }
  return steps;
}

void read_steps(const json& from, std::vector<ChainStep>& steps) {
  steps.reserve(from.size());
  for (const json& each : from) {
    ChainStep& step = steps.emplace_back();
    step.plugin = each.at("plugin");
    step.parameters = each.at("parameters");
    if (each.contains("timeout_ns")) step.timeout = Duration(integer(each, "timeout_ns"));
    if (each.contains("retry")) step.retry = read_policy(each.at("retry"));
  }
}

// Lengths and times have their unit in the name.
std::string length_key(const RequestField& field) { return field.name + std::string("_ns"); }
std::string time_key(const RequestField& field) { return field.name + std::string("_us"); }

// Writes the fields that have no column of their own.
struct TextWriter {
  json& text;

  template <class T>
  void operator()(const RequestField& field, const T& member) const {
    if (field.home == RequestField::Home::kText) write(field, member);
  }
  void write(const RequestField& field, const std::string& value) const {
    if (!value.empty()) text[field.name] = value;
  }
  template <class Text>
  void write(const RequestField& field, const JsonText<Text>& value) const {
    if (value.text != "{}") text[field.name] = value.text;
  }
  void write(const RequestField& field, bool value) const {
    if (value) text[field.name] = true;
  }
  void write(const RequestField& field, const std::optional<Duration>& value) const {
    if (value) text[length_key(field)] = value->count();
  }
  void write(const RequestField& field, const std::optional<WallTime>& value) const {
    if (value) text[time_key(field)] = value->time_since_epoch().count();
  }
  void write(const RequestField& field, const std::vector<ChainStep>& steps) const {
    text[field.name] = steps_json(steps);
  }
  template <class T>
  void write(const RequestField&, const T&) const {}  // Of fields with a column.
};

struct TextReader {
  const json& from;
  const char* steps_key;

  template <class T>
  void operator()(const RequestField& field, T&& member) const {
    if (field.home == RequestField::Home::kText) read(field, member);
  }
  void read(const RequestField& field, std::string& value) const { value = from.value(field.name, ""); }
  template <class Text>
  void read(const RequestField& field, JsonText<Text>& value) const {
    value.text = from.value(field.name, "{}");
  }
  void read(const RequestField& field, bool& value) const { value = from.value(field.name, false); }
  void read(const RequestField& field, std::optional<Duration>& value) const {
    const std::string key = length_key(field);
    if (from.contains(key)) value = Duration(integer(from, key.c_str()));
  }
  void read(const RequestField& field, std::optional<WallTime>& value) const {
    const std::string key = time_key(field);
    if (from.contains(key)) value = WallTime(std::chrono::microseconds(integer(from, key.c_str())));
  }
  void read(const RequestField&, std::vector<ChainStep>& steps) const { read_steps(from.at(steps_key), steps); }
  template <class T>
  void read(const RequestField&, T&) const {}
};

}  // namespace

std::string request_text(const NewTask& request) {
  json text = {{"format", kTextFormat}};
  visit_request(request, TextWriter{text});
  return text.dump(-1, ' ', false, kReplace);
}

std::string outline_text(NewTask request) {
  for (ChainStep& each : request.steps) each.parameters.clear();
  request.parameters = "{}";
  return request_text(request);
}

void read_request(const std::string& text, NewTask& request) {
  try {
    const json from = json::parse(text);
    visit_request(request, TextReader{from, from.value("format", 2) >= 3 ? "steps" : "callbacks"});
  } catch (const json::exception&) {
    throw Damaged("column 'request' is not the JSON of a request");
  }
}

std::string lines_text(const std::vector<std::string>& lines) {
  return lines.empty() ? "[]" : json(lines).dump(-1, ' ', false, kReplace);
}

std::vector<std::string> read_lines(const std::string& text) {
  try {
    return text.size() <= 2 ? std::vector<std::string>() : json::parse(text).get<std::vector<std::string>>();
  } catch (const json::exception&) {
    throw Damaged("a list of texts cannot be read");
  }
}

void check_consistency(const ChainTask& task) {
  if (!is_utf8(task.id()) || task.id().empty()) throw Damaged("its id");
  NewTask request = task.request;  // Without what is no part of a request's own rules.
  if (is_sequence_reference(request.id)) request.id.clear();
  request.payload.clear();
  if (const Result<void> good = check(request); !good) throw Damaged(good.error().message);
  if (task.step > task.request.steps.size()) throw Damaged("its step does not exist");
  const bool is_open = !is_final(task.state) && task.state != ChainState::kPending;
  if (is_open && task.current_step() == nullptr) throw Damaged("it is open and has no step left");
  if (task.state == ChainState::kProcessing && task.owner.empty()) throw Damaged("it is claimed by nobody");
  if (is_final(task.state) != task.ended_at.has_value()) throw Damaged("its end and its state do not agree");
}

PreparedTask::PreparedTask(NewTask task) : request(std::move(task)), checked(check(request)) {
  constexpr std::size_t kLargeRequest = 1'000;  // Bytes.
  if (!checked) return;
  hash = request_hash(request);
  text = request_text(request);
  tags = lines_text(request.tags);
  if (text.size() > kLargeRequest) outline = outline_text(request);
}

}  // namespace cohort::backend
