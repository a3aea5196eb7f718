#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/url.h"

namespace cohort {

/// A parameter behind the question mark.
struct QueryParameter {
  std::string_view name;
  std::string_view meaning;
  std::string_view schema = R"({"type": "string"})";  ///< JSON Schema of its value.
};

/// One thing that a node can be asked.
struct ApiRoute {
  std::string_view operation;  ///< Its name, for handlers and for generated clients.
  std::string_view method;
  std::string_view path;  ///< "/v1/tasks/{id}"
  std::string_view summary;
  std::vector<QueryParameter> query = {};
  std::string_view body = {};         ///< The schema of what it takes; empty: nothing.
  std::string_view answer = {};       ///< The schema of what it gives; empty: nothing.
  std::vector<int> statuses = {200};  ///< With which it gives it.
};

/// All of them.
[[nodiscard]] std::span<const ApiRoute> api_routes();

/// A route with what stood for its placeholders.
struct MatchedRoute {
  const ApiRoute* route = nullptr;        ///< Null: no such path, or not with this method.
  std::vector<std::string> arguments;     ///< In the order of the placeholders.
  std::vector<std::string_view> allowed;  ///< The methods that this path has.
};

[[nodiscard]] MatchedRoute match_route(std::string_view method, const Target& target);

}  // namespace cohort
