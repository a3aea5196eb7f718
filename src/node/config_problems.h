#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

/// A place in a text; both count from 1, columns in bytes.
struct TextPlace {
  int line = 1;
  int column = 1;
  friend auto operator<=>(const TextPlace&, const TextPlace&) = default;
};

/// "12:5"
[[nodiscard]] std::string to_string(TextPlace place);

/// The problems of one text: the first of them by place, and how many more there are.
///
/// Thread-safety: thread-compatible.
class ConfigProblems {
 public:
  static constexpr std::size_t kMaxShown = 50;

  void add(TextPlace place, std::string text);
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Something that is understood, but should be written in another way.
  void warn(TextPlace place, std::string text) { warnings_.emplace(place, std::move(text)); }
  /// "name:line:column: text" each.
  [[nodiscard]] std::vector<std::string> warnings(std::string_view name) const;
  /// "name:line:column: text", a line each.
  [[nodiscard]] std::string to_string(std::string_view name) const;

 private:
  std::multimap<TextPlace, std::string> first_;
  std::multimap<TextPlace, std::string> warnings_;
  std::size_t count_ = 0;
};

/// What a file says, fit to be in a message of one line: not too long, without control characters.
[[nodiscard]] std::string clipped(std::string_view text);
/// The same in quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace cohort::internal
