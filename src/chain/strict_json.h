#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cohort/base/result.h"

namespace cohort {

/// Parses JSON from outside. kInvalid says which fault it is and at which byte: not UTF-8, a number out of range, bytes
/// after the value, a key that is there twice, more than 64 levels or a million values, or no JSON at all.
[[nodiscard]] Result<nlohmann::json> parse_strict_json(std::string_view text);

/// The value as a whole number from 0: 7, and 7.0 as JSON Schema has it. Nothing: it is something else.
[[nodiscard]] std::optional<std::uint64_t> whole_number(const nlohmann::json& value);

}  // namespace cohort
