#include "backend/sqlite/task_text.h"

#include <nlohmann/json.hpp>

#include "backend/sqlite/task_row.h"

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
  if (request.deadline_at) text["deadline_at_us"] = request.deadline_at->time_since_epoch().count();
  if (request.start_at) text["start_at_us"] = request.start_at->time_since_epoch().count();
  if (request.pending) text["pending"] = true;
  return text.dump(-1, ' ', false, kReplace);
}

std::string outline_text(NewTask request) {
  for (Callback& each : request.callbacks) each.parameters.clear();
  return request_text(request);
}

void read_request(const std::string& text, NewTask& request) {
  const json from = json::parse(text);
  request.callbacks.reserve(from.at("callbacks").size());
  for (const json& each : from.at("callbacks")) {
    Callback& callback = request.callbacks.emplace_back();
    callback.plugin = each.at("plugin");
    callback.parameters = each.at("parameters");
    if (each.contains("timeout_ns")) callback.timeout = Duration(integer(each, "timeout_ns"));
    if (each.contains("retry")) callback.retry = read_policy(each.at("retry"));
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
