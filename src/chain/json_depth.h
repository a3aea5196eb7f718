#pragma once

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

}  // namespace cohort
