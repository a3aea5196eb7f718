#include "cli/text.h"

#include <algorithm>
#include <array>

#include "cohort/base/text_time.h"

namespace cohort {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

struct Range {
  char32_t first;
  char32_t last;
};
constexpr std::array<Range, 14> kWide = {{{0x1100, 0x115F},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0xA4CF},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0xFFE0, 0xFFE6},
                                          {0x1F300, 0x1F64F},
                                          {0x1F680, 0x1F6FF},
                                          {0x1F900, 0x1F9FF},
                                          {0x1FA70, 0x1FAFF},
                                          {0x20000, 0x2FFFD},
                                          {0x30000, 0x3FFFD}}};
constexpr std::array<Range, 4> kNoWidth = {{{0x0300, 0x036F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 5> kUnsafe = {
    {{0x00, 0x1F}, {0x7F, 0x9F}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}}};

template <std::size_t kCount>
bool is_in(const std::array<Range, kCount>& ranges, char32_t value) {
  return std::ranges::any_of(ranges, [&](Range range) { return value >= range.first && value <= range.last; });
}

int width_of(char32_t value) {
  if (is_in(kNoWidth, value)) return 0;
  return is_in(kWide, value) ? 2 : 1;
}

bool is_between(char c, unsigned char first, unsigned char last) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= first && byte <= last;
}

/// ESC [ parameters final.
std::size_t control_sequence_bytes(std::string_view text) {
  std::size_t at = 2;
  while (at < text.size() && is_between(text[at], 0x20, 0x3F)) ++at;
  return at < text.size() && is_between(text[at], 0x40, 0x7E) ? at + 1 : 1;
}

/// ESC ] text, up to BEL or ESC backslash. Without an end it is one ESC only, so that nothing after it is hidden.
std::size_t control_string_bytes(std::string_view text) {
  for (std::size_t at = 2; at < text.size(); ++at) {
    if (text[at] == '\a') return at + 1;
    if (text[at] == '\x1b') return at + 1 < text.size() && text[at + 1] == '\\' ? at + 2 : 1;
  }
  return 1;
}

/// How long the escape sequence at the beginning of `text` is, where text begins with ESC.
std::size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return 1;
  if (text[1] == '[') return control_sequence_bytes(text);
  if (std::string_view("]P^_X").find(text[1]) != std::string_view::npos) return control_string_bytes(text);
  return is_between(text[1], 0x30, 0x7E) ? 2 : 1;
}

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::kNone: return "";
    case Colour::kBold: return "\x1b[1m";
    case Colour::kDim: return "\x1b[2m";
    case Colour::kRed: return "\x1b[31m";
    case Colour::kGreen: return "\x1b[32m";
    case Colour::kYellow: return "\x1b[33m";
    case Colour::kBlue: return "\x1b[34m";
  }
  return "";
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {lead, 1, false};
  char32_t value = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {lead, 1, false};
    value = (value << 6U) | (byte(i) & 0x3FU);
  }
  const bool is_overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (is_overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {lead, 1, false};
  return {value, length, true};
}

bool is_unsafe(char32_t code_point) { return is_in(kUnsafe, code_point); }

std::string safe_text(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    std::size_t used = point.bytes;
    if (point.valid && !is_unsafe(point.value)) {
      out += text.substr(0, used);
    } else if (point.value == '\n' && lines == Lines::kKeep) {
      out += '\n';
    } else if (point.value == '\n' || point.value == '\t') {
      out += ' ';
    } else if (text.starts_with("\r\n")) {
      out += lines == Lines::kKeep ? "\n" : " ";
      used = 2;
    } else {
      if (point.value == 0x1B) used = escape_bytes(text);
      out += kReplacement;
    }
    text.remove_prefix(used);
  }
  return out;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    width += point.valid ? width_of(point.value) : 1;
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  if (width < 1) return "";
  std::size_t kept = 0;
  int used = 1;  // The ellipsis.
  while (kept < text.size()) {
    const CodePoint point = first_code_point(text.substr(kept));
    used += point.valid ? width_of(point.value) : 1;
    if (used > width) break;
    kept += point.bytes;
  }
  return std::string(text.substr(0, kept)) + std::string(kEllipsis);
}

std::string pad_right(std::string text, int width) {
  const int missing = width - display_width(text);
  if (missing > 0) text.append(static_cast<std::size_t>(missing), ' ');
  return text;
}

std::string pad_left(std::string text, int width) {
  const int missing = width - display_width(text);
  if (missing > 0) text.insert(0, static_cast<std::size_t>(missing), ' ');
  return text;
}

std::string age_text(WallTime then, WallTime now) {
  using std::chrono::duration_cast;
  if (then > now) return "in " + age_text(now, then);
  const auto seconds = duration_cast<std::chrono::seconds>(now - then).count();
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 2L * 3600) return std::to_string(seconds / 60) + "m";
  if (seconds < 2L * 86'400) return std::to_string(seconds / 3600) + "h";
  return std::to_string(seconds / 86'400) + "d";
}

std::string age_text(std::string_view then, WallTime now) {
  const Result<WallTime> time = parse_time(then);
  return time ? age_text(*time, now) : "-";
}

std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string Style::paint(Colour with, std::string_view text) const {
  if (!colour || with == Colour::kNone) return std::string(text);
  return std::string(code_of(with)) + std::string(text) + "\x1b[0m";
}

Colour colour_of(std::string_view state_or_kind) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, state_or_kind) != names.end();
  };
  if (is_one_of({"completed", "step_completed", "running", "ok"})) return Colour::kGreen;
  if (is_one_of({"failed", "poison", "refused"})) return Colour::kRed;
  if (is_one_of({"expired", "cancelled", "paused", "draining", "gap", "taken_over"})) return Colour::kYellow;
  if (is_one_of({"processing", "replayed"})) return Colour::kBlue;
  return Colour::kNone;
}

}  // namespace cohort
