#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

/// The number of bytes of the first UTF-8 character of the text; 0 if the text does not begin with a valid character.
[[nodiscard]] std::size_t utf8_bytes(std::string_view text);

/// True if the whole text is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view text);

/// True if the text is UTF-8 and has no NUL: a text that every store can keep.
[[nodiscard]] bool is_plain_utf8(std::string_view text);

/// The text with U+FFFD in place of each NUL and of each byte that is not UTF-8, cut between two characters to at most
/// `most_bytes` bytes.
[[nodiscard]] std::string plain_utf8(std::string_view text, std::size_t most_bytes = std::string_view::npos);

/// The number of characters of the text, as JSON Schema counts them. A byte that is not valid UTF-8 counts as one.
[[nodiscard]] std::size_t utf8_characters(std::string_view text);

}  // namespace cohort
