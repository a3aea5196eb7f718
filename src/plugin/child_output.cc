#include "plugin/child_output.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "chain/json_depth.h"
#include "cohort/store/chain_task.h"

namespace cohort {
namespace {

using nlohmann::json;

// Of the character that the text begins with; 0: it is not UTF-8.
std::size_t bytes_of_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<std::uint8_t>(text[at]) : 0U; };
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

std::string readable(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t bytes = bytes_of_character(line);
    const auto first = static_cast<std::uint8_t>(line.front());
    const bool is_readable = bytes > 1 || (bytes == 1 && (first >= 0x20 || first == '\t') && first != 0x7F);
    const std::string_view shown = is_readable ? line.substr(0, bytes) : "?";
    if (text.size() + shown.size() > kMaxLogLineBytes) break;
    text += shown;
    line.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return text;
}

}  // namespace

Result<json> outputs_of(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  if (is_too_much_json(text)) {
    return Error{ErrorCode::kInvalid, "its output is JSON of more than " + std::to_string(kMaxJsonDepth) + " levels"};
  }
  json outputs = json::parse(text, nullptr, false);
  if (!outputs.is_object()) return Error{ErrorCode::kInvalid, "its output is not a JSON object"};
  return outputs;
}

std::vector<std::string> readable_lines(std::string_view text, bool is_cut) {
  const std::size_t first_end = text.find('\n');
  if (is_cut && first_end != std::string_view::npos && first_end + 1 < text.size()) text.remove_prefix(first_end + 1);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(readable(line));
  }
  return lines;
}

}  // namespace cohort
