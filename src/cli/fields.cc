#include "cli/fields.h"

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "cli/text.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 128;

void append_escaped(std::string& out, char32_t value) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(value) & 0xFFFFU);
  out += text.data();
}

}  // namespace

Result<json> parse_json(std::string_view text) {
  bool too_deep = false;
  std::string twice;
  std::vector<std::set<std::string>> keys;  // Of the objects that have not ended.
  const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& value) {
    too_deep = too_deep || depth > kMaxDepth;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return !too_deep;
  };
  try {
    json value = json::parse(text, watch);
    if (!twice.empty()) return Error{ErrorCode::kInvalid, "the key '" + twice + "' is there twice"};
    if (!too_deep) return value;
  } catch (const json::parse_error& error) {
    return Error{ErrorCode::kInvalid, "it is not JSON: byte " + std::to_string(error.byte) + " cannot be understood"};
  }
  return Error{ErrorCode::kInvalid, "it is nested deeper than " + std::to_string(kMaxDepth) + " levels"};
}

std::string json_text(const json& value, bool indented) {
  const std::string plain = value.dump(indented ? 2 : -1, ' ', false, json::error_handler_t::replace);
  std::string out;
  out.reserve(plain.size());
  for (std::string_view rest = plain; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    // All unsafe characters but the line breaks of the indentation stand inside texts, where an escape is the same.
    if (point.value != '\n' && is_unsafe(point.value)) {
      append_escaped(out, point.value);
    } else {
      out += rest.substr(0, point.bytes);
    }
    rest.remove_prefix(point.bytes);
  }
  return out;
}

const json& member(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string raw_text(const json& object, const char* key) {
  const json& found = member(object, key);
  return found.is_string() ? found.get<std::string>() : "";
}

std::string shown(const json& object, const char* key) {
  const json& found = member(object, key);
  if (found.is_null()) return "";
  return found.is_string() ? safe_text(found.get_ref<const std::string&>()) : json_text(found, false);
}

double number(const json& object, const char* key, double otherwise) {
  const json& found = member(object, key);
  return found.is_number() ? found.get<double>() : otherwise;
}

std::uint64_t whole(const json& object, const char* key) {
  const json& found = member(object, key);
  if (found.is_number_unsigned()) return found.get<std::uint64_t>();
  return found.is_number_integer() && found.get<std::int64_t>() > 0 ? found.get<std::uint64_t>() : 0;
}

bool truth(const json& object, const char* key) {
  const json& found = member(object, key);
  return found.is_boolean() && found.get<bool>();
}

const json& list(const json& object, const char* key) {
  static const json kEmpty = json::array();
  const json& found = member(object, key);
  return found.is_array() ? found : kEmpty;
}

}  // namespace cohort
