#include "backend/sqlite/task_text.h"

#include <nlohmann/json.hpp>

#include "backend/sqlite/task_row.h"

namespace cohort::sqlite {

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

std::string request_text(const NewTask& request) {
  json steps = json::array();
  for (const ChainStep& each : request.steps) {
    json step = {{"plugin", each.plugin}, {"parameters", each.parameters}};
    if (each.timeout) step["timeout_ns"] = each.timeout->count();
    if (each.retry) step["retry"] = policy_json(*each.retry);
    steps.push_back(std::move(step));
  }
  json text = {{"format", kTextFormat}, {"steps", std::move(steps)}, {"deadline_ns", request.deadline.count()}};
  if (!request.session.empty()) text["session"] = request.session;
  if (!request.file.empty()) text["file"] = request.file;
  if (request.deadline_at) text["deadline_at_us"] = request.deadline_at->time_since_epoch().count();
  if (request.start_at) text["start_at_us"] = request.start_at->time_since_epoch().count();
  if (request.pending) text["pending"] = true;
  return text.dump(-1, ' ', false, kReplace);
}

std::string outline_text(NewTask request) {
  for (ChainStep& each : request.steps) each.parameters.clear();
  return request_text(request);
}

void read_request(const std::string& text, NewTask& request) {
  const json from = json::parse(text);
  const json& steps = from.at(from.value("format", 2) >= 3 ? "steps" : "callbacks");
  request.steps.reserve(steps.size());
  for (const json& each : steps) {
    ChainStep& step = request.steps.emplace_back();
    step.plugin = each.at("plugin");
    step.parameters = each.at("parameters");
    if (each.contains("timeout_ns")) step.timeout = Duration(integer(each, "timeout_ns"));
    if (each.contains("retry")) step.retry = read_policy(each.at("retry"));
  }
  request.deadline = Duration(integer(from, "deadline_ns"));
  request.session = from.value("session", "");
  request.file = from.value("file", "");
  if (from.contains("deadline_at_us")) {
    request.deadline_at = WallTime(std::chrono::microseconds(integer(from, "deadline_at_us")));
  }
  if (from.contains("start_at_us")) {
    request.start_at = WallTime(std::chrono::microseconds(integer(from, "start_at_us")));
  }
  request.pending = from.value("pending", false);
}

std::string lines_text(const std::vector<std::string>& lines) {
  return lines.empty() ? "[]" : json(lines).dump(-1, ' ', false, kReplace);
}

std::vector<std::string> read_lines(const std::string& text) {
  return text.size() <= 2 ? std::vector<std::string>() : json::parse(text).get<std::vector<std::string>>();
}

}  // namespace cohort::sqlite
