#pragma once

#include <cstddef>
#include <string_view>

namespace cohort {

/// Bytes of the UTF-8 character that the text begins with; 0 if it does not begin with one.
[[nodiscard]] std::size_t utf8_bytes(std::string_view text);

/// True if the whole text is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view text);

/// How many characters the text has, as JSON Schema counts them; a byte that is not UTF-8 counts as one.
[[nodiscard]] std::size_t utf8_characters(std::string_view text);

}  // namespace cohort
