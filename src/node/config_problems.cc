#include "node/config_problems.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace cohort::internal {

void ConfigProblems::add(TextPlace place, std::string text) {
  first_.emplace(place, std::move(text));
  ++count_;
  if (first_.size() > kMaxShown) first_.erase(std::prev(first_.end()));
}

namespace {

std::string at(std::string_view name, TextPlace place, const std::string& text) {
  return std::string(name) + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + text;
}

}  // namespace

std::vector<std::string> ConfigProblems::warnings(std::string_view name) const {
  std::vector<std::string> all;
  for (const auto& [place, text] : warnings_) all.push_back(at(name, place, text));
  return all;
}

std::string ConfigProblems::to_string(std::string_view name) const {
  std::string all;
  for (const auto& [place, text] : first_) {
    if (!all.empty()) all += '\n';
    all += at(name, place, text);
  }
  if (count_ > first_.size()) all += "\nand " + std::to_string(count_ - first_.size()) + " more";
  return all;
}

std::string clipped(std::string_view text) {
  constexpr std::size_t kMaxBytes = 60;
  std::size_t bytes = std::min(text.size(), kMaxBytes);
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  while (bytes > 0 && bytes < text.size() && is_inside(bytes)) --bytes;  // Never half a character.
  std::string all;
  for (const char each : text.substr(0, bytes)) all += static_cast<unsigned char>(each) < 0x20 ? ' ' : each;
  return all + (bytes < text.size() ? "…" : "");
}

std::string in_quotes(std::string_view text) { return "'" + clipped(text) + "'"; }

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  std::string_view nearest;
  std::size_t least = std::min<std::size_t>(3, word.size() / 3 + 1) + 1;
  for (const std::string_view each : known) {
    const std::size_t longer = std::max(word.size(), each.size()) - std::min(word.size(), each.size());
    if (longer >= least) continue;  // Nor is a long word worth the comparison.
    const std::size_t distance = edit_distance(word, each);
    if (distance >= least) continue;
    least = distance;
    nearest = each;
  }
  return std::string(nearest);
}

}  // namespace cohort::internal
