#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// Writes every byte as %XX, except letters, digits and -._~.
[[nodiscard]] std::string percent_encode(std::string_view text);
/// Decodes one level of percent-encoding. `nullopt` if a % is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

}  // namespace cohort
