#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"

namespace cohort {

/// The outputs that a program has put out: a JSON object of at most 64 levels. Nothing but white space: an empty one.
[[nodiscard]] Result<nlohmann::json> outputs_of(std::string_view text);

/// The text with '?' for bytes that are not UTF-8 and for control characters other than line feed and tab.
[[nodiscard]] std::string readable_text(std::string_view text);

/// What a program has written to its standard error, as lines that can be kept and shown: UTF-8, with '?' for what is
/// not and for control characters, each of at most 1000 bytes, the empty ones left out. `is_cut`: the first line may be
/// half a line, and is left out when there are others.
[[nodiscard]] std::vector<std::string> readable_lines(std::string_view text, bool is_cut);

}  // namespace cohort
