#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "admin/server_message.h"
#include "api/body_json.h"
#include "cohort/base/result.h"

namespace cohort {

/// JSON from outside: an object, nested 64 deep at most. No body is an empty object.
[[nodiscard]] Result<nlohmann::json> parse_body(const std::string& text);

/// The body of a request as its route declares it (api/bodies.h).
template <class Body>
[[nodiscard]] Result<Body> read_body(const ServerRequest& request) {
  const Result<nlohmann::json> json = parse_body(request.body);
  if (!json) return json.error();
  return body_from_json<Body>(*json);
}

}  // namespace cohort
