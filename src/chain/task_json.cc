#include "cohort/chain/task_json.h"

#include <array>
#include <utility>

#include "chain/json_depth.h"
#include "chain/strict_json.h"
#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "store/request_fields.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr std::array<std::string_view, 3> kPriorities = {"high", "normal", "low"};
constexpr std::size_t kMaxMessageBytes = NewTask::kMaxPayloadBytes + (64U << 10U);
constexpr std::size_t kKeptOfARefused = 4096;

/// Reads the members of an object, and knows which have been read.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail("", "an object");
  }

  template <class T>
  void read(const char* key, T& value) {
    const json* found = find(key);
    if (found != nullptr) convert(key, *found, value);
  }
  template <class T>
  void read(const char* key, std::optional<T>& value) {
    const json* found = find(key);
    if (found == nullptr) return;
    T inner{};
    convert(key, *found, inner);
    value = std::move(inner);
  }
  /// Null: it is not there.
  const json* find(const char* key) {
    if (error_ || !object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    ++read_;
    return &*found;
  }
  void fail(const std::string& key, const std::string& expected) {
    if (!error_) error_ = Error{ErrorCode::kInvalid, place(key) + " must be " + expected};
  }
  void fail(const Error& error) {
    if (!error_) error_ = error;
  }
  [[nodiscard]] std::string place(const std::string& key) const {
    if (where_.empty()) return key.empty() ? "the task" : "'" + key + "'";
    return "'" + where_ + (key.empty() ? "" : "." + key) + "'";
  }

  /// What was wrong, a key that nobody asked for included.
  [[nodiscard]] std::optional<Error> end(const std::vector<std::string_view>& known) const {
    if (error_ || read_ == object_.size()) return error_;
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string all;
      for (const std::string_view each : known) all += (all.empty() ? "" : ", ") + std::string(each);
      return Error{ErrorCode::kInvalid, place(key) + " is not known; there are: " + all};
    }
    return error_;
  }

 private:
  void convert(const char* key, const json& from, std::string& to) {
    if (!from.is_string()) return fail(key, "a text");
    to = from.get<std::string>();
  }
  void convert(const char* key, const json& from, bool& to) {
    if (!from.is_boolean()) return fail(key, "true or false");
    to = from.get<bool>();
  }
  void convert(const char* key, const json& from, std::uint32_t& to) {
    const auto number = whole_number(from);
    if (!number || *number > 1'000'000) return fail(key, "a whole number from 0 to 1000000");
    to = static_cast<std::uint32_t>(*number);
  }
  void convert(const char* key, const json& from, double& to) {
    if (!from.is_number()) return fail(key, "a number");
    to = from.get<double>();
  }
  void convert(const char* key, const json& from, Duration& to) {
    if (!from.is_string()) return fail(key, "a duration such as \"30s\"");
    const Result<Duration> duration = parse_duration(from.get_ref<const std::string&>());
    if (!duration) return fail({ErrorCode::kInvalid, place(key) + ": " + duration.error().message});
    to = *duration;
  }
  void convert(const char* key, const json& from, WallTime& to) {
    if (!from.is_string()) return fail(key, "a time such as \"2026-11-16T05:00:00Z\"");
    const Result<WallTime> time = parse_time(from.get_ref<const std::string&>());
    if (!time) return fail({ErrorCode::kInvalid, place(key) + ": " + time.error().message});
    to = *time;
  }
  void convert(const char* key, const json& from, std::vector<std::string>& to) {
    if (!from.is_array()) return fail(key, "a list of texts");
    for (const json& each : from) {
      if (!each.is_string()) return fail(key, "a list of texts");
      to.push_back(each.get<std::string>());
    }
  }
  void convert(const char* key, const json& from, Priority& to) {
    for (std::size_t i = 0; i < kPriorities.size(); ++i) {
      if (from == kPriorities[i]) {
        to = static_cast<Priority>(i);
        return;
      }
    }
    fail(key, "\"high\", \"normal\" or \"low\"");
  }

  const json& object_;
  std::string where_;
  std::size_t read_ = 0;
  std::optional<Error> error_;
};

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json parsed(const std::string& text) {
  if (is_too_much_json(text)) return {};
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json() : value;
}

Result<RetryPolicy> read_retry(const json& from, const std::string& where) {
  RetryPolicy policy;
  Reader reader(from, where);
  reader.read("max_retries", policy.max_retries);
  reader.read("backoff", policy.backoff);
  reader.read("multiplier", policy.multiplier);
  reader.read("max_backoff", policy.max_backoff);
  reader.read("jitter", policy.jitter);
  if (policy.multiplier < 1) reader.fail("multiplier", "at least 1");
  if (policy.jitter < 0 || policy.jitter > 1) reader.fail("jitter", "between 0 and 1");
  if (auto error = reader.end({"max_retries", "backoff", "multiplier", "max_backoff", "jitter"})) return *error;
  return policy;
}

Result<ChainStep> read_step(const json& from, const std::string& where) {
  ChainStep step;
  if (from.is_string()) {  // Nothing but the plugin's name.
    step.plugin = from.get<std::string>();
    return step;
  }
  Reader reader(from, where);
  reader.read("plugin", step.plugin);
  reader.read("timeout", step.timeout);
  if (const json* parameters = reader.find("parameters")) {
    if (!parameters->is_object()) reader.fail("parameters", "an object");
    step.parameters = dump(*parameters);
  }
  if (const json* retry = reader.find("retry")) {
    Result<RetryPolicy> policy = read_retry(*retry, where + ".retry");
    if (!policy) return policy.error();
    step.retry = *policy;
  }
  if (auto error = reader.end({"plugin", "parameters", "timeout", "retry"})) return *error;
  return step;
}

}  // namespace

namespace {

// Reads a request by the list of its fields.
class FieldReader {
 public:
  explicit FieldReader(const json& from) : reader_(from, "") {}

  template <class T>
  void operator()(const RequestField& field, T&& member) {
    known_.emplace_back(field.name);
    read(field, member);
  }
  void refuse(const char* name, const char* expected) { reader_.fail(name, expected); }
  [[nodiscard]] std::optional<Error> error() const { return error_ ? error_ : reader_.end(known_); }

 private:
  template <class T>
  void read(const RequestField& field, T& member) {
    reader_.read(field.name, member);
  }
  template <class Text>
  void read(const RequestField& field, JsonText<Text>& member) {
    if (const json* value = reader_.find(field.name)) member.text = dump(*value);
  }
  void read(const RequestField& field, std::vector<ChainStep>& steps) {
    const json* const list = reader_.find(field.name);
    if (list == nullptr) return;
    if (!list->is_array()) return reader_.fail(field.name, "a list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      Result<ChainStep> step = read_step((*list)[i], "step " + std::to_string(i + 1));
      if (!step) {
        error_ = step.error();
        return;
      }
      steps.push_back(*std::move(step));
    }
  }

  Reader reader_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

}  // namespace

Result<ChainStep> step_from_json(const json& from, const std::string& place) { return read_step(from, place); }

Result<NewTask> task_from_json(const json& from) {
  if (is_too_deep(from)) {
    return Error{ErrorCode::kInvalid,
                 "the task is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels, which is not allowed"};
  }
  NewTask task;
  FieldReader reader(from);
  visit_request(task, reader);
  if (task.deadline_at && task.deadline) reader.refuse("deadline_at", "given without 'deadline'");
  if (const auto error = reader.error()) return *error;
  if (auto good = check(task); !good) return good.error();
  return task;
}

json steps_to_json(const std::vector<ChainStep>& from) {
  json steps = json::array();
  for (const ChainStep& each : from) {
    json step = {{"plugin", each.plugin}, {"parameters", parsed(each.parameters)}};
    if (each.timeout) step["timeout"] = format_duration(*each.timeout);
    if (each.retry) {
      step["retry"] = {{"max_retries", each.retry->max_retries},
                       {"backoff", format_duration(each.retry->backoff)},
                       {"multiplier", each.retry->multiplier},
                       {"max_backoff", format_duration(each.retry->max_backoff)},
                       {"jitter", each.retry->jitter}};
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

namespace {

// Writes the fields that are set.
struct FieldWriter {
  json& out;

  void operator()(const RequestField& field, const std::string& value) const {
    if (!value.empty()) out[field.name] = value;
  }
  template <class Text>
  void operator()(const RequestField& field, const JsonText<Text>& value) const {
    const bool is_unset = field.hashed == RequestField::Hashed::kIfSet && value.text == "{}";
    if (!is_unset) out[field.name] = parsed(value.text);
  }
  void operator()(const RequestField& field, const std::vector<ChainStep>& steps) const {
    out[field.name] = steps_to_json(steps);
  }
  void operator()(const RequestField& field, const std::vector<std::string>& texts) const { out[field.name] = texts; }
  void operator()(const RequestField& field, Priority priority) const {
    out[field.name] = kPriorities.at(static_cast<std::size_t>(priority));
  }
  void operator()(const RequestField& field, const std::optional<Duration>& length) const {
    if (length) out[field.name] = format_duration(*length);
  }
  void operator()(const RequestField& field, const std::optional<WallTime>& time) const {
    if (time) out[field.name] = format_time(*time);
  }
  void operator()(const RequestField& field, bool value) const {
    if (value) out[field.name] = true;
  }
};

}  // namespace

json to_json(const NewTask& task) {
  json out = json::object();
  visit_request(task, FieldWriter{out});
  return out;
}

json to_json(const ChainTask& task) {
  json out = to_json(task.request);
  out.erase("pending");
  out["state"] = to_string(task.state);
  out["sequence"] = task.sequence;
  out["steps_done"] = task.step;
  if (task.current_step() != nullptr) out["step"] = task.step + 1;
  out["attempt"] = task.attempt;
  out["created_at"] = format_time(task.created_at);
  if (task.deadline_after == Duration::max()) {
    out["deadline"] = "none";
  } else {
    if (task.deadline_after) out["deadline"] = format_duration(*task.deadline_after);
    out["deadline_at"] = format_time(task.deadline_at);
  }
  out["context"] = parsed(task.context);
  out["progress"] = task.progress;
  out["log"] = task.log;
  out["ran"] = format_duration(task.ran);
  if (task.due_at) out["due_at"] = format_time(*task.due_at);
  if (task.started_at) out["started_at"] = format_time(*task.started_at);
  if (task.ended_at) out["ended_at"] = format_time(*task.ended_at);
  if (!task.progress_note.empty()) out["progress_note"] = task.progress_note;
  if (!task.error.empty()) out["error"] = task.error;
  if (!task.owner.empty()) out["owner"] = task.owner;
  if (!task.message_id.empty()) out["message_id"] = task.message_id;
  if (task.cancel_requested) out["cancel_requested"] = true;
  if (const auto at = out["context"].find("artifacts"); out["context"].is_object() && at != out["context"].end()) {
    out["artifacts"] = *at;
  }
  return out;
}

json to_json(const AttemptRecord& attempt) {
  json out = {{"step", attempt.step + 1},
              {"attempt", attempt.attempt},
              {"plugin", attempt.plugin},
              {"node", attempt.node},
              {"began_at", format_time(attempt.began_at)},
              {"ended_at", format_time(attempt.ended_at)},
              {"outcome", attempt.outcome}};
  if (!attempt.error.empty()) out["error"] = attempt.error;
  if (!attempt.log.empty()) out["log"] = attempt.log;
  return out;
}

json to_json(const DeadLetter& letter) {
  json out = {{"task_id", letter.task_id},
              {"group", letter.group},
              {"state", to_string(letter.state)},
              {"reason", letter.reason},
              {"step", letter.plugin.empty() ? 0 : letter.step + 1},
              {"attempts", letter.attempts},
              {"failed_at", format_time(letter.failed_at)}};
  if (!letter.message_id.empty()) out["message_id"] = letter.message_id;
  if (!letter.plugin.empty()) out["plugin"] = letter.plugin;
  if (!letter.node.empty()) out["node"] = letter.node;
  if (letter.progress > 0) out["progress"] = letter.progress;
  if (!letter.log.empty()) out["log"] = letter.log;
  if (!letter.original.empty()) out["original"] = letter.original;
  return out;
}

json to_json(const ChainEvent& event) {
  // An event of a completed step, or chain, has the index behind it.
  const bool is_behind = event.kind == EventKind::kStepCompleted || event.kind == EventKind::kCompleted;
  json out = {{"sequence", event.sequence},    {"at", format_time(event.at)},
              {"kind", to_string(event.kind)}, {"task_id", event.task_id},
              {"group", event.group},          {"step", is_behind ? event.step : event.step + 1}};
  if (!event.detail.empty()) out["detail"] = event.detail;
  return out;
}

// Members of a message that have other names in the format that Cohort grew out of (a task's list of steps was
// `callbacks`). They are understood, and the log says so.
struct FormerName {
  const char* former;
  const char* now;
};
constexpr std::array kFormerMessageNames = {FormerName{"messageId", "message_id"}, FormerName{"taskId", "task_id"},
                                            FormerName{"publishedAt", "published_at"},
                                            FormerName{"sourceNode", "source_node"}};
constexpr std::array kFormerTaskNames = {FormerName{"callbacks", "steps"}};

template <std::size_t kCount>
void rename(json& object, const std::array<FormerName, kCount>& names, std::string& used) {
  for (const FormerName& name : names) {
    const auto found = object.find(name.former);
    if (found == object.end() || object.contains(name.now)) continue;
    used += (used.empty() ? "'" : ", '") + std::string(name.former) + "'";
    object[name.now] = std::move(*found);
    object.erase(name.former);
  }
}

void rename_former(json& message, const std::string& message_place) {
  std::string used;
  rename(message, kFormerMessageNames, used);
  if (const auto task = message.find("task"); task != message.end() && task->is_object()) {
    rename(*task, kFormerTaskNames, used);
  }
  if (used.empty()) return;
  COHORT_LOG(kWarning, "chain", "a message uses former names of members; use 'steps', 'message_id' and so on",
             {"message", message_place}, {"names", used});
}

TakenIn taken_in(const InMessage& message) {
  TakenIn in;
  const std::string place = std::to_string(message.partition) + "/" + std::to_string(message.offset);
  in.message_id = place;
  const auto refuse = [&](const std::string& reason) {
    in.task.reset();
    in.refused = DeadLetter{.task_id = in.task_id,
                            .message_id = in.message_id,
                            .reason = reason,
                            .original = message.value.substr(0, kKeptOfARefused)};
    return in;
  };
  if (message.value.size() > kMaxMessageBytes) {
    return refuse("the message has " + std::to_string(message.value.size()) + " bytes; at most " +
                  std::to_string(kMaxMessageBytes) + " are allowed");
  }
  Result<json> parsed_value = parse_strict_json(message.value);
  if (!parsed_value) return refuse("the message cannot be read: " + parsed_value.error().message);
  json& value = *parsed_value;
  if (!value.is_object()) return refuse("the message is not a JSON object");
  rename_former(value, place);
  Reader reader(value, "");
  std::string unused;
  reader.read("message_id", in.message_id);
  reader.read("task_id", in.task_id);
  reader.read("deadline", in.deadline);
  reader.read("published_at", unused);
  reader.read("source_node", unused);
  const json* task = reader.find("task");
  if (auto error = reader.end({"message_id", "task_id", "task", "deadline", "published_at", "source_node"})) {
    return refuse(error->message);
  }
  if (in.message_id.empty() || in.message_id.size() > NewTask::kMaxIdLength) {
    in.message_id = place;
    return refuse("'message_id' must have 1 to 128 bytes");
  }
  if ((task == nullptr) == in.task_id.empty()) return refuse("the message must have either 'task' or 'task_id'");
  if (task == nullptr) return in;
  Result<NewTask> read = task_from_json(*task);
  if (!read) return refuse(read.error().message);
  in.task = *std::move(read);
  if (in.task->id.empty()) in.task->id = in.message_id;
  return in;
}

}  // namespace cohort
