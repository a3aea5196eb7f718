#include "cli/sse_reader.h"

namespace cohort {

bool SseReader::feed(std::string_view bytes, const OnEvent& on_event) {
  for (const char c : bytes) {
    const bool belongs_to_last = after_return_ && c == '\n';
    after_return_ = c == '\r';
    if (belongs_to_last) continue;
    if (c == '\n' || c == '\r') {
      if (!end_line(on_event)) return false;
    } else if (line_.size() + data_.size() < max_bytes_) {
      line_ += c;
    } else {
      too_large_ = true;
    }
  }
  return true;
}

void SseReader::restart() {
  clear_event();
  line_.clear();
  id_ = last_id_;
  after_return_ = false;
  at_start_ = true;
}

bool SseReader::end_line(const OnEvent& on_event) {
  std::string line;
  line.swap(line_);
  std::string_view rest = line;
  if (at_start_ && rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  at_start_ = false;
  if (rest.empty()) return end_event(on_event);
  if (rest.starts_with(':')) return true;  // A comment, such as a ping.
  const std::size_t colon = rest.find(':');
  std::string_view value = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  take_field(rest.substr(0, colon), value);
  return true;
}

void SseReader::take_field(std::string_view name, std::string_view value) {
  if (name == "event") {
    kind_ = value;
  } else if (name == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    id_ = value;
  }
}

bool SseReader::end_event(const OnEvent& on_event) {
  if (too_large_) ++left_out_;
  const bool is_event = has_data_ && !too_large_;
  last_id_ = id_;
  const SseEvent event{last_id_, kind_.empty() ? "message" : kind_, data_};
  clear_event();
  return !is_event || on_event(event);
}

void SseReader::clear_event() {
  kind_.clear();
  data_.clear();
  has_data_ = false;
  too_large_ = false;
}

}  // namespace cohort
