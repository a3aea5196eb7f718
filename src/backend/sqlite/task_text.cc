#include "backend/sqlite/task_text.h"

#include <nlohmann/json.hpp>

namespace cohort::sqlite {

using nlohmann::json;

namespace {

constexpr auto kReplace = json::error_handler_t::replace;  // Not UTF-8: kept as readable as it can be.

json policy_json(const RetryPolicy& policy) {
  return {{"max_retries", policy.max_retries},
          {"backoff_ns", policy.backoff.count()},
          {"multiplier", policy.multiplier},
          {"max_backoff_ns", policy.max_backoff.count()},
          {"jitter", policy.jitter}};
}

RetryPolicy read_policy(const json& from) {
  return {.max_retries = from.at("max_retries"),
          .backoff = Duration(from.at("backoff_ns").get<std::int64_t>()),
          .multiplier = from.at("multiplier"),
          .max_backoff = Duration(from.at("max_backoff_ns").get<std::int64_t>()),
          .jitter = from.at("jitter")};
}

}  // namespace

std::string request_text(const NewTask& request) {
  json callbacks = json::array();
  for (const Callback& each : request.callbacks) {
    json callback = {{"plugin", each.plugin}, {"parameters", each.parameters}};
    if (each.timeout) callback["timeout_ns"] = each.timeout->count();
    if (each.retry) callback["retry"] = policy_json(*each.retry);
    callbacks.push_back(std::move(callback));
  }
  json text = {{"callbacks", std::move(callbacks)}, {"deadline_ns", request.deadline.count()}};
  if (!request.session.empty()) text["session"] = request.session;
  if (!request.file.empty()) text["file"] = request.file;
  if (request.start_at) text["start_at_us"] = request.start_at->time_since_epoch().count();
  if (request.pending) text["pending"] = true;
  return text.dump(-1, ' ', false, kReplace);
}

void read_request(const std::string& text, NewTask& request) {
  const json from = json::parse(text);
  for (const json& each : from.at("callbacks")) {
    Callback& callback = request.callbacks.emplace_back();
    callback.plugin = each.at("plugin");
    callback.parameters = each.at("parameters");
    if (each.contains("timeout_ns")) callback.timeout = Duration(each.at("timeout_ns").get<std::int64_t>());
    if (each.contains("retry")) callback.retry = read_policy(each.at("retry"));
  }
  request.deadline = Duration(from.at("deadline_ns").get<std::int64_t>());
  request.session = from.value("session", "");
  request.file = from.value("file", "");
  if (from.contains("start_at_us")) {
    request.start_at = WallTime(std::chrono::microseconds(from.at("start_at_us").get<std::int64_t>()));
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
