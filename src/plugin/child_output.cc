#include "plugin/child_output.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "chain/json_depth.h"
#include "cohort/base/utf8.h"
#include "cohort/store/chain_task.h"

namespace cohort {
namespace {

using nlohmann::json;

std::string readable(std::string_view text, std::size_t max_bytes, bool has_lines) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto first = static_cast<std::uint8_t>(text.front());
    const bool is_printed = (first >= 0x20 && first != 0x7F) || first == '\t' || (has_lines && first == '\n');
    const std::string_view next = bytes > 1 || (bytes == 1 && is_printed) ? text.substr(0, bytes) : "?";
    if (shown.size() + next.size() > max_bytes) break;
    shown += next;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return shown;
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

std::string readable_text(std::string_view text) { return readable(text, text.size(), true); }

std::vector<std::string> readable_lines(std::string_view text, bool is_cut) {
  const std::size_t first_end = text.find('\n');
  if (is_cut && first_end != std::string_view::npos && first_end + 1 < text.size()) text.remove_prefix(first_end + 1);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(readable(line, kMaxLogLineBytes, false));
  }
  return lines;
}

}  // namespace cohort
