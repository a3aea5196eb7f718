#pragma once

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "admin/server_message.h"
#include "cohort/base/result.h"
#include "cohort/store/chain_task.h"
#include "cohort/task/task_result.h"

namespace cohort {

inline ServerResponse json_response(const nlohmann::json& json, int status = 200) {
  return {.status = status, .body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

/// A parameter of the query; empty: not given.
inline std::string query(const ServerRequest& request, const char* name) {
  const auto at = request.target.query.find(name);
  return at == request.target.query.end() ? "" : at->second;
}

/// The request is well-formed, and this node cannot do it: 422 where another error of that code is 400.
inline ServerResponse refusal_of(const Error& error) {
  Problem problem = Problem::of(error);
  if (error.code == ErrorCode::kInvalid) problem.status = 422;
  return ServerResponse::of(problem);
}

/// A state of the query; nothing: not given. kInvalid: there is no such state.
inline Result<std::optional<ChainState>> query_state(const ServerRequest& request) {
  const auto at = request.target.query.find("state");
  if (at == request.target.query.end()) return std::optional<ChainState>();
  if (const auto state = chain_state_of(at->second)) return state;
  return Error{ErrorCode::kInvalid, "there is no state '" + at->second + "'"};
}

/// kInvalid: not a whole number in that range.
inline Result<std::uint64_t> query_number(const ServerRequest& request, const char* name, std::uint64_t otherwise,
                                          std::uint64_t min, std::uint64_t max) {
  const std::string text = query(request, name);
  if (!request.target.query.contains(name)) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
  return Error{ErrorCode::kInvalid, std::string(name) + " must be a whole number from " + std::to_string(min) + " to " +
                                        std::to_string(max)};
}

/// The error of a result that has one.
template <class T>
Error error_of(const TaskResult<T>& result) {
  return result.error ? *result.error : Error{ErrorCode::kInternal, "no reason was given"};
}

}  // namespace cohort
