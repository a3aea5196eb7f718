#include "api/url.h"

#include <utility>

#include "cohort/base/percent.h"

namespace cohort {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Without a byte 0: nothing has one in its name, and much stops at one.
std::optional<std::string> decoded(std::string_view text) {
  auto plain = percent_decode(text);
  if (plain && plain->find('\0') != std::string::npos) return std::nullopt;
  return plain;
}

bool add_parameter(std::string_view text, std::map<std::string, std::string>& query) {
  if (text.empty()) return true;
  const std::size_t equals = text.find('=');
  std::string value(equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1));
  for (char& c : value) {
    if (c == '+') c = ' ';
  }
  auto decoded_name = decoded(text.substr(0, equals));
  auto decoded_value = decoded(value);
  return decoded_name && decoded_value && query.emplace(*std::move(decoded_name), *std::move(decoded_value)).second;
}

}  // namespace

std::optional<Target> Target::parse(std::string_view text) {
  if (text.empty() || text.front() != '/') return std::nullopt;
  Target target;
  const std::size_t mark = text.find('?');
  std::string_view path = text.substr(1, mark == std::string_view::npos ? mark : mark - 1);
  if (!path.empty() && path.back() == '/') path.remove_suffix(1);
  for (const std::string_view part : split(path, '/')) {
    auto segment = decoded(part);
    if (!segment) return std::nullopt;
    target.segments.push_back(*std::move(segment));
  }
  if (mark == std::string_view::npos) return target;
  for (const std::string_view part : split(text.substr(mark + 1), '&')) {
    if (!add_parameter(part, target.query)) return std::nullopt;
  }
  return target;
}

}  // namespace cohort
