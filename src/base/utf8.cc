#include "cohort/base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace cohort {

std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0U; };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_no_character ? 0 : bytes;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

bool is_plain_utf8(std::string_view text) { return text.find('\0') == std::string_view::npos && is_utf8(text); }

std::string plain_utf8(std::string_view text, std::size_t most_bytes) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string plain;
  plain.reserve(std::min(text.size(), most_bytes));
  while (!text.empty()) {
    const std::size_t bytes = text.front() == '\0' ? 0 : utf8_bytes(text);
    const std::string_view next = bytes == 0 ? kReplacement : text.substr(0, bytes);
    if (plain.size() + next.size() > most_bytes) break;
    plain += next;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return plain;
}

std::size_t utf8_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(std::max<std::size_t>(utf8_bytes(text), 1));
  return count;
}

}  // namespace cohort
