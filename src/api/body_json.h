#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/bodies.h"
#include "api/schema.h"
#include "cohort/base/result.h"
#include "cohort/base/text_time.h"
#include "cohort/base/utf8.h"

namespace cohort {

namespace body {

inline constexpr std::string_view kLetterStates[] = {"failed", "expired", "poison"};

/// Reads members by their rules. The first that breaks its rule is the error.
class BodyReader {
 public:
  explicit BodyReader(const nlohmann::json& object) : object_(object) {}

  template <class T, class Rule>
  void operator()(const char* name, std::optional<T>& value, const Rule& rule) {
    known_.emplace_back(name);
    const auto at = object_.find(name);
    if (at == object_.end() || read(*at, value, rule) || error_) return;
    error_ = Error{ErrorCode::kInvalid, "'" + std::string(name) + "' must be " + expected(rule)};
  }
  /// What was wrong, a member that has no rule included.
  [[nodiscard]] std::optional<Error> error() const {
    if (error_) return error_;
    for (const auto& [name, value] : object_.items()) {
      if (std::ranges::find(known_, name) != known_.end()) continue;
      std::string names;
      for (const std::string& each : known_) names += (names.empty() ? "" : ", ") + each;
      return Error{ErrorCode::kInvalid, "unknown key '" + name + "'; known are: " + (names.empty() ? "none" : names)};
    }
    return std::nullopt;
  }

 private:
  using Json = nlohmann::json;

  static bool read(const Json& from, std::optional<std::string>& to, const TextRule& rule) {
    if (!from.is_string()) return false;
    const auto& text = from.get_ref<const std::string&>();
    if (utf8_characters(text) > rule.most_characters || !is_plain_utf8(text)) return false;
    if (rule.is_letter_state && std::ranges::find(kLetterStates, text) == std::end(kLetterStates)) return false;
    to = text;
    return true;
  }
  // A whole number may come as 2.0 or 2e0 too.
  static bool read(const Json& from, std::optional<std::uint32_t>& to, const CountRule& rule) {
    if (!from.is_number()) return false;
    const auto number = from.get<double>();
    if (std::isnan(number) || number < rule.min || number > rule.max) return false;
    to = static_cast<std::uint32_t>(number);
    return static_cast<double>(*to) == number;
  }
  static bool read(const Json& from, std::optional<double>& to, const NumberRule& rule) {
    if (!from.is_number()) return false;
    to = from.get<double>();
    return *to > 0 && *to <= rule.max;
  }
  static bool read(const Json& from, std::optional<bool>& to, const FlagRule&) {
    if (!from.is_boolean()) return false;
    to = from.get<bool>();
    return true;
  }
  static bool read(const Json& from, std::optional<Duration>& to, const LengthRule&) {
    if (!from.is_string()) return false;
    const Result<Duration> length = parse_duration(from.get_ref<const std::string&>());
    if (!length || *length <= Duration::zero()) return false;
    to = *length;
    return true;
  }

  static std::string expected(const TextRule& rule) {
    if (rule.is_letter_state) return "'failed', 'expired' or 'poison'";
    return "a text of at most " + std::to_string(rule.most_characters) + " characters, without NUL";
  }
  static std::string expected(const CountRule& rule) {
    return "a whole number from " + std::to_string(rule.min) + " to " + std::to_string(rule.max);
  }
  static std::string expected(const NumberRule& rule) { return "a number above 0, at most " + Json(rule.max).dump(); }
  static std::string expected(const FlagRule&) { return "true or false"; }
  static std::string expected(const LengthRule&) { return "a duration such as \"30s\" or \"1h\""; }

  const Json& object_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

struct BodyWriter {
  nlohmann::json object = nlohmann::json::object();

  template <class T, class Rule>
  void operator()(const char* name, const std::optional<T>& value, const Rule&) {
    if (!value) return;
    if constexpr (std::is_same_v<T, Duration>) {
      object[name] = format_duration(*value);
    } else {
      object[name] = *value;
    }
  }
};

struct BodyMembers {
  std::vector<schema::Member> members = {};

  template <class T, class Rule>
  void operator()(const char* name, const T&, const Rule& rule) {
    members.push_back({name, schema_of(rule)});
  }
  static schema::Json schema_of(const TextRule& rule) {
    return rule.is_letter_state ? schema::word({std::begin(kLetterStates), std::end(kLetterStates)})
                                : schema::text(rule.most_characters);
  }
  static schema::Json schema_of(const CountRule& rule) { return schema::whole(rule.min, rule.max); }
  static schema::Json schema_of(const NumberRule& rule) {
    return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", rule.max}};
  }
  static schema::Json schema_of(const FlagRule&) { return schema::flag(); }
  static schema::Json schema_of(const LengthRule&) { return schema::length(); }
};

}  // namespace body

/// kInvalid: a member breaks its rule, or is not known.
template <class Body>
[[nodiscard]] Result<Body> body_from_json(const nlohmann::json& object) {
  Body body;
  body::BodyReader reader(object);
  Body::visit(body, reader);
  if (const auto error = reader.error()) return *error;
  return body;
}

template <class Body>
[[nodiscard]] nlohmann::json to_json_body(const Body& body) {
  body::BodyWriter writer;
  Body::visit(body, writer);
  return std::move(writer.object);
}

template <class Body>
[[nodiscard]] schema::Json body_schema() {
  body::BodyMembers members;
  Body::visit(Body(), members);
  schema::Json out = schema::request(members.members);
  if constexpr (requires { Body::kLeastMembers; }) out["minProperties"] = Body::kLeastMembers;
  return out;
}

}  // namespace cohort
