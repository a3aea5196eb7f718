#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/url.h"

namespace cohort {

/// What a node can be asked. The server's handlers, the command line and OpenAPI name a route by this.
enum class Operation : std::uint8_t {
  kSubmitTasks,
  kListTasks,
  kGetTask,
  kGetAttempts,
  kReadyTask,
  kCancelTask,
  kRetryTask,
  kExplainTask,
  kListChains,
  kListDeadLetters,
  kGetDeadLetter,
  kReplayDeadLetters,
  kReplayDeadLetter,
  kDiscardDeadLetter,
  kListGroups,
  kGetGroup,
  kPauseGroup,
  kResumeGroup,
  kResizeGroup,
  kStreamEvents,
  kGetNode,
  kGetOpenApi,
  kHealthz,
  kReadyz,
};

/// A parameter behind the question mark.
struct QueryParameter {
  std::string_view name;
  std::string_view meaning;
  std::string_view schema = R"({"type": "string", "pattern": "^[^\\u0000]*$"})";  ///< JSON Schema of its value.
};

struct ApiRoute {
  Operation id;
  std::string_view operation;  ///< Its name in OpenAPI, for generated clients.
  std::string_view method;
  std::string_view path;  ///< "/v1/tasks/{id}"
  std::string_view summary;
  std::vector<QueryParameter> query = {};
  std::string_view body = {};         ///< The schema of what it takes (api/schemas.h); empty: nothing.
  std::string_view answer = {};       ///< The schema of what it gives; empty: nothing.
  std::vector<int> statuses = {200};  ///< With which it gives it.
};

/// All of them, in the order of Operation.
[[nodiscard]] std::span<const ApiRoute> api_routes();
[[nodiscard]] const ApiRoute& api_route(Operation operation);
/// The path with its placeholders replaced, percent-encoded: one argument for each.
[[nodiscard]] std::string path_of(Operation operation, std::span<const std::string> arguments = {});

/// A route with what stood for its placeholders.
struct MatchedRoute {
  const ApiRoute* route = nullptr;        ///< Null: no such path, or not with this method.
  std::vector<std::string> arguments;     ///< In the order of the placeholders.
  std::vector<std::string_view> allowed;  ///< The methods that this path has.
};

[[nodiscard]] MatchedRoute match_route(std::string_view method, const Target& target);

}  // namespace cohort
