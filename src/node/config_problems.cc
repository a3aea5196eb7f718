#include "node/config_problems.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cohort::internal {

void ConfigProblems::add(TextPlace place, std::string text) {
  first_.emplace(place, std::move(text));
  ++count_;
  if (first_.size() > kMaxShown) first_.erase(std::prev(first_.end()));
}

std::string to_string(TextPlace place) { return std::to_string(place.line) + ":" + std::to_string(place.column); }

namespace {

std::string at(std::string_view name, TextPlace place, const std::string& text) {
  return std::string(name) + ":" + to_string(place) + ": " + text;
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

}  // namespace cohort::internal
