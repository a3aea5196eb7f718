#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// All but letters, digits and -._~ as %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);
/// Once. Nothing: a % without two digits behind it.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

}  // namespace cohort
