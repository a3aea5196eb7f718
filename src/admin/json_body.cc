#include "admin/json_body.h"

#include "chain/strict_json.h"

namespace cohort {

using nlohmann::json;

Result<json> parse_body(const std::string& text) {
  if (text.empty()) return json(json::object());
  Result<json> body = parse_strict_json(text);
  if (!body) return Error{ErrorCode::kInvalid, "the body cannot be read: " + body.error().message};
  if (!body->is_object()) return Error{ErrorCode::kInvalid, "the body is not a JSON object"};
  return body;
}

}  // namespace cohort
