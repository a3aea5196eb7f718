#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace cohort {

/// Whoever writes JSON out goes as deep as it is nested, on the stack: what comes from outside has a limit.
inline constexpr int kMaxJsonDepth = 64;

[[nodiscard]] inline bool is_too_deep(const nlohmann::json& value, int left = kMaxJsonDepth) {
  if (!value.is_structured()) return false;
  if (left == 0) return true;
  for (const nlohmann::json& each : value) {
    if (is_too_deep(each, left - 1)) return true;
  }
  return false;
}

/// The same of text that has not been parsed, and whether it holds more values than that: a value costs many times the
/// bytes that stand for it.
[[nodiscard]] inline bool is_too_much_json(std::string_view text, std::size_t max_values = 1'000'000) {
  int depth = 0;
  std::size_t values = 1;
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char each = text[at];
    if (is_in_string && each == '\\') {
      ++at;
    } else if (each == '"') {
      is_in_string = !is_in_string;
    } else if (is_in_string) {
      continue;
    } else if (each == '{' || each == '[') {
      if (++depth > kMaxJsonDepth || ++values > max_values) return true;
    } else if (each == '}' || each == ']') {
      --depth;
    } else if (each == ',' && ++values > max_values) {
      return true;
    }
  }
  return false;
}

}  // namespace cohort
