#include "node/config_kinds.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "cohort/base/text_time.h"
#include "cohort/base/unlimited.h"

namespace cohort::internal {

namespace {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxUrlBytes = 2048;

std::string found(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "nothing";
    case YamlNode::Kind::kList: return "a list of " + std::to_string(node.children.size());
    case YamlNode::Kind::kMap: return "a map of " + std::to_string(node.children.size());
    case YamlNode::Kind::kScalar: break;
  }
  return (node.is_quoted ? "the quoted text " : "") + in_quotes(node.text);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string from_to(const std::string& what, const std::string& least, const std::string& most) {
  return what + " from " + least + " to " + most;
}

// Decimal digits alone: 010 is eight to some.
Fit parse_whole(std::string_view digits, std::uint64_t& value) {
  if (!is_digits(digits) || (digits.size() > 1 && digits[0] == '0')) return Fit::kWrongType;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failed == std::errc() ? Fit::kGood : Fit::kOutOfRange;
}

struct SizeUnit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array kSizeUnits = {SizeUnit{"TiB", std::uint64_t{1} << 40U}, SizeUnit{"GiB", 1U << 30U},
                                   SizeUnit{"MiB", 1U << 20U}, SizeUnit{"KiB", 1U << 10U}};

Fit parse_size(std::string_view text, std::uint64_t& value) {
  std::uint64_t unit = 1;
  for (const SizeUnit& each : kSizeUnits) {
    if (unit != 1 || !text.ends_with(each.name)) continue;
    unit = each.bytes;
    text.remove_suffix(each.name.size());
  }
  const Fit fit = parse_whole(text, value);
  if (fit != Fit::kGood) return fit;
  if (value > std::numeric_limits<std::uint64_t>::max() / unit) return Fit::kOutOfRange;
  value *= unit;
  return Fit::kGood;
}

std::string show_size(std::uint64_t bytes) {
  for (const SizeUnit& each : kSizeUnits) {
    if (bytes != 0 && bytes % each.bytes == 0) return std::to_string(bytes / each.bytes) + std::string(each.name);
  }
  return std::to_string(bytes);
}

std::string show_number(double value) {
  std::array<char, 400> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
  return {text.data(), end};
}

Fit parse_time_span(const std::string& text, Duration& value) {
  if (text == "0") return value = Duration::zero(), Fit::kGood;
  const auto is_letter_of_none = [](char c) {
    return (c < '0' || c > '9') && std::string_view(".dhmsun").find(c) == std::string_view::npos;
  };
  if (std::any_of(text.begin(), text.end(), is_letter_of_none)) return Fit::kWrongType;
  const Result<Duration> parsed = parse_duration(text);
  if (!parsed) return Fit::kWrongType;
  value = *parsed;
  return Fit::kGood;
}

// Wraps a parser with a range.
template <class V, class Parse>
auto within(V least, V most, Parse parse) {
  return [=](const std::string& text, V& value) {
    const Fit fit = parse(text, value);
    if (fit != Fit::kGood) return fit;
    return value >= least && value <= most ? Fit::kGood : Fit::kOutOfRange;
  };
}

bool is_url(std::string_view text) {
  const std::size_t scheme = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
  if (scheme == 0 || text.size() <= scheme || std::string_view("/?#:@").find(text[scheme]) != std::string_view::npos) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string show_path(const std::filesystem::path& path) { return yaml_text(path.string()); }

}  // namespace

ConfigPlace ConfigPlace::inside(std::string_view key) const {
  const std::string name = clipped(key);
  return {path.empty() ? name : path + "." + name, problems};
}
ConfigPlace ConfigPlace::item(std::size_t index) const { return {path + "[" + std::to_string(index) + "]", problems}; }

void ConfigPlace::problem(TextPlace place, const std::string& text) const {
  problems->add(place, path.empty() ? text : path + ": " + text);
}
void ConfigPlace::wrong_type(const YamlNode& node, const std::string& expected, const std::string& sample) const {
  problem(node.problem_place(), "found " + found(node) + ", expected " + expected + ", such as " + sample);
}
void ConfigPlace::out_of_range(const YamlNode& node, const std::string& expected) const {
  problem(node.problem_place(), found(node) + " is out of range, expected " + expected);
}

std::string yaml_text(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:-";
  const bool is_plain = !text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos &&
                        std::string_view(":-").find(text.front()) == std::string_view::npos && text.back() != ':';
  if (is_plain) return std::string(text);
  std::string all = "'";
  for (const char each : text) all += each == '\'' ? std::string("''") : std::string(1, each);
  return text.empty() ? "\"\"" : all + "'";
}

namespace kinds {

ValueKind<std::uint64_t> count(std::uint64_t least, std::uint64_t most) {
  const std::string type = from_to("a whole number", std::to_string(least), std::to_string(most));
  return scalar<std::uint64_t>(type, std::to_string(std::max(least, std::min<std::uint64_t>(most, 4))),
                               Quotes::kRefused, within(least, most, parse_whole),
                               [](const std::uint64_t& value) { return std::to_string(value); });
}

ValueKind<std::uint64_t> count_or_unlimited(std::uint64_t least, std::uint64_t most) {
  const ValueKind<std::uint64_t> plain = count(least, most);
  const auto parse = [range = within(least, most, parse_whole)](const std::string& text, std::uint64_t& value) {
    if (text == "unlimited") return value = kUnlimited, Fit::kGood;
    return range(text, value);
  };
  const auto show = [](const std::uint64_t& value) {
    return value == kUnlimited ? std::string("unlimited") : std::to_string(value);
  };
  return scalar<std::uint64_t>(plain.type + ", or unlimited", plain.sample, Quotes::kRefused, parse, show);
}

ValueKind<double> number(double least, double most) {
  const auto parse = [](const std::string& text, double& value) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed == std::errc::result_out_of_range) return Fit::kOutOfRange;
    return failed == std::errc() && end == text.data() + text.size() ? Fit::kGood : Fit::kWrongType;
  };
  const std::string type = from_to("a number", show_number(least), show_number(most));
  return scalar<double>(type, show_number(std::max(least, std::min(most, 0.5))), Quotes::kRefused,
                        within(least, most, parse), show_number);
}

ValueKind<bool> yes_no() {
  const auto parse = [](const std::string& text, bool& value) {
    value = text == "true";
    return value || text == "false" ? Fit::kGood : Fit::kWrongType;
  };
  return scalar<bool>("true or false", "true", Quotes::kRefused, parse,
                      [](const bool& value) { return std::string(value ? "true" : "false"); });
}

ValueKind<Duration> duration(Duration least, Duration most) {
  const std::string type = from_to("a duration", format_duration(least), format_duration(most));
  const Duration sample = std::clamp<Duration>(std::chrono::seconds(30), least, most);
  return scalar<Duration>(type, format_duration(sample), Quotes::kAllowed, within(least, most, parse_time_span),
                          format_duration);
}

ValueKind<std::uint64_t> size(std::uint64_t least, std::uint64_t most) {
  const std::string type = from_to("a size", show_size(least), show_size(most));
  const std::uint64_t sample = std::clamp<std::uint64_t>(64U << 10U, least, most);
  return scalar<std::uint64_t>(type, show_size(sample), Quotes::kAllowed, within(least, most, parse_size), show_size);
}

ValueKind<std::string> text(std::size_t least_bytes, std::size_t most_bytes) {
  const std::string type = "text of " + std::to_string(least_bytes) + " to " + std::to_string(most_bytes) + " bytes";
  const auto parse = [=](const std::string& from, std::string& value) {
    value = from;
    return from.size() >= least_bytes && from.size() <= most_bytes ? Fit::kGood : Fit::kOutOfRange;
  };
  return scalar<std::string>(type, "name", Quotes::kAllowed, parse,
                             [](const std::string& value) { return yaml_text(value); });
}

ValueKind<std::filesystem::path> path(bool may_be_empty) {
  const auto parse = [=](const std::string& from, std::filesystem::path& value) {
    value = from;
    return from.size() <= kMaxPathBytes && (may_be_empty || !from.empty()) ? Fit::kGood : Fit::kOutOfRange;
  };
  return scalar<std::filesystem::path>(may_be_empty ? "a path, or \"\"" : "a path", "cohort-data", Quotes::kAllowed,
                                       parse, show_path);
}

ValueKind<std::filesystem::path> absolute_path() {
  const auto parse = [](const std::string& from, std::filesystem::path& value) {
    value = from;
    if (from.size() > kMaxPathBytes) return Fit::kOutOfRange;
    return from.starts_with('/') ? Fit::kGood : Fit::kWrongType;
  };
  return scalar<std::filesystem::path>("an absolute path", "/srv/in", Quotes::kAllowed, parse, show_path);
}

ValueKind<std::string> url() {
  const auto parse = [](const std::string& from, std::string& value) {
    value = from;
    if (from.size() > kMaxUrlBytes) return Fit::kOutOfRange;
    return is_url(from) ? Fit::kGood : Fit::kWrongType;
  };
  return scalar<std::string>("a URL that begins with http:// or https://", "https://a.example", Quotes::kAllowed, parse,
                             [](const std::string& value) { return yaml_text(value); });
}

ValueKind<std::map<std::string, std::string>> environment(std::size_t most) {
  using Variables = std::map<std::string, std::string>;
  const std::string type = "a map of at most " + std::to_string(most) + " names to text";
  const auto read = [=, each = text(0, 64U << 10U)](const YamlNode& node, Variables& values, const ConfigPlace& place) {
    if (node.kind != YamlNode::Kind::kMap) return place.wrong_type(node, type, "{LANG: C}"), false;
    if (node.children.size() > most) return place.out_of_range(node, type), false;
    Variables all;
    bool good = true;
    for (const YamlNode& child : node.children) {
      if (!is_variable_name(child.key)) {
        place.problem(child.key_place,
                      in_quotes(child.key) + " is not the name of a variable; use letters, digits and _");
        good = false;
      }
      good = each.read(child, all[child.key], place.inside(child.key)) && good;
    }
    if (good) values = std::move(all);
    return good;
  };
  const auto show = [](const Variables& values) {
    std::string all;
    for (const auto& [name, value] : values) all += (all.empty() ? "" : ", ") + name + ": " + yaml_text(value);
    return "{" + all + "}";
  };
  return {type, "{LANG: C}", read, show};
}

}  // namespace kinds
}  // namespace cohort::internal
