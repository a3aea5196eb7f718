#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cohort/base/wall_clock.h"

namespace cohort {

/// The first character of a text in UTF-8. What is not UTF-8 is one byte and not valid.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
  bool valid = false;
};
/// `text` is not empty.
[[nodiscard]] CodePoint first_code_point(std::string_view text);

/// True for what may change how a terminal shows the rest: controls, and marks that turn the direction of writing.
[[nodiscard]] bool is_unsafe(char32_t code_point);

/// What of a text with line breaks is kept.
enum class Lines { kJoin, kKeep };

/// The text without anything that a terminal would obey: an escape sequence, a control character and what is not UTF-8
/// each become U+FFFD. Tabs become spaces; line breaks too, unless they are kept.
[[nodiscard]] std::string safe_text(std::string_view text, Lines lines = Lines::kJoin);

/// How many columns a terminal needs for it, by code points; those of East Asian scripts and emoji need two.
[[nodiscard]] int display_width(std::string_view text);
/// The text, or as much of its beginning as fits with a … after it.
[[nodiscard]] std::string cut_to_width(std::string_view text, int width);
/// With spaces after it, or before it, up to that width.
[[nodiscard]] std::string pad_right(std::string text, int width);
[[nodiscard]] std::string pad_left(std::string text, int width);

/// "12s", "5m", "3h", "2d": the whole of the largest unit. Of a time to come: "in 5m".
[[nodiscard]] std::string age_text(WallTime then, WallTime now);
/// The same of an RFC 3339 text; "-" if it is none.
[[nodiscard]] std::string age_text(std::string_view then, WallTime now);
/// "1 task", "2 tasks".
[[nodiscard]] std::string counted(std::size_t count, std::string_view noun);

enum class Colour { kNone, kBold, kDim, kRed, kGreen, kYellow, kBlue };

/// Paints text, or leaves it as it is.
struct Style {
  bool colour = false;
  [[nodiscard]] std::string paint(Colour with, std::string_view text) const;
};

/// Of a task's state, and of an event's kind.
[[nodiscard]] Colour colour_of(std::string_view state_or_kind);

}  // namespace cohort
