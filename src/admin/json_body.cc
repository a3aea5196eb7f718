#include "admin/json_body.h"

#include <algorithm>

#include "chain/strict_json.h"
#include "cohort/base/text_time.h"
#include "cohort/base/utf8.h"

namespace cohort {

using nlohmann::json;

Result<json> parse_body(const std::string& text) {
  if (text.empty()) return json(json::object());
  Result<json> body = parse_strict_json(text);
  if (!body) return Error{ErrorCode::kInvalid, "the body cannot be read: " + body.error().message};
  if (!body->is_object()) return Error{ErrorCode::kInvalid, "the body is not a JSON object"};
  return body;
}

const json* JsonBody::find(std::string_view name) {
  known_.push_back(name);
  const auto at = object_.find(std::string(name));
  return at == object_.end() ? nullptr : &*at;
}

void JsonBody::wrong(std::string_view name, const std::string& expected) {
  if (!error_) error_ = Error{ErrorCode::kInvalid, "'" + std::string(name) + "' must be " + expected};
}

std::optional<std::string> JsonBody::text(std::string_view name, std::size_t max_characters) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && utf8_characters(value->get_ref<const std::string&>()) <= max_characters) {
    return value->get<std::string>();
  }
  wrong(name, "a text of at most " + std::to_string(max_characters) + " characters");
  return std::nullopt;
}

std::optional<std::uint32_t> JsonBody::count(std::string_view name, std::uint32_t min, std::uint32_t max) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto given = whole_number(*value); given && *given >= min && *given <= max) {
    return static_cast<std::uint32_t>(*given);
  }
  wrong(name, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

std::optional<double> JsonBody::number(std::string_view name, double above, double max) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto given = value->get<double>();
    if (given > above && given <= max) return given;
  }
  wrong(name, "a number above " + json(above).dump() + ", at most " + json(max).dump());
  return std::nullopt;
}

std::optional<bool> JsonBody::flag(std::string_view name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "true or false");
  return std::nullopt;
}

std::optional<Duration> JsonBody::duration(std::string_view name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    if (auto parsed = parse_duration(value->get_ref<const std::string&>()); parsed && *parsed > Duration::zero()) {
      return *parsed;
    }
  }
  wrong(name, "a duration such as \"30s\" or \"1h\"");
  return std::nullopt;
}

std::optional<Error> JsonBody::error() const {
  if (error_) return error_;
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    std::string names;
    for (const std::string_view each : known_) names += (names.empty() ? "" : ", ") + std::string(each);
    return Error{ErrorCode::kInvalid, "unknown key '" + name + "'; known are: " + (names.empty() ? "none" : names)};
  }
  return std::nullopt;
}

}  // namespace cohort
