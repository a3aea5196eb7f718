#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cohort/base/result.h"

namespace cohort {

/// Reads JSON that came from outside. kInvalid: it is none, or is nested deeper than 128 levels.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text);

/// One line, or indented. What a terminal would obey is escaped, so it is the same JSON and safe to show.
[[nodiscard]] std::string json_text(const nlohmann::json& value, bool indented);

/// A member of an object, whatever it is; null if there is none.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, const char* key);
/// As it came: for comparing and for sending back, never for showing. Empty if it is no text.
[[nodiscard]] std::string raw_text(const nlohmann::json& object, const char* key);
/// For people: a text, number or truth value made safe for a terminal. Empty if it is not there.
[[nodiscard]] std::string shown(const nlohmann::json& object, const char* key);
/// A number, or `otherwise`.
[[nodiscard]] double number(const nlohmann::json& object, const char* key, double otherwise = 0);
/// A whole number from 0; 0 if it is none.
[[nodiscard]] std::uint64_t whole(const nlohmann::json& object, const char* key);
[[nodiscard]] bool truth(const nlohmann::json& object, const char* key);
/// The member if it is a list, else an empty list.
[[nodiscard]] const nlohmann::json& list(const nlohmann::json& object, const char* key);

}  // namespace cohort
