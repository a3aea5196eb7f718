#include "cohort/base/text_time.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace cohort {

namespace {

struct Unit {
  std::string_view name;
  double nanoseconds;
};
// The longer names first: "ms" is not "m" and an "s".
constexpr std::array kUnits = {Unit{"ms", 1e6},   Unit{"us", 1e3}, Unit{"ns", 1}, Unit{"d", 86400e9},
                               Unit{"h", 3600e9}, Unit{"m", 60e9}, Unit{"s", 1e9}};

Error bad_duration(std::string_view text) {
  return {ErrorCode::kInvalid,
          "'" + std::string(text) + "' is not a duration; write it as 500ms, 2.5s, 5m, 1h30m or 7d"};
}
Error bad_time(std::string_view text) {
  return {ErrorCode::kInvalid, "'" + std::string(text) + "' is not a time; write it as 2026-11-16T05:00:00Z"};
}

// Reads `digits` of them as a number; false when there are other characters.
bool read_number(std::string_view& text, std::size_t digits, int& number) {
  if (text.size() < digits) return false;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + digits, number);
  if (failed != std::errc() || end != text.data() + digits || text[0] == '-') return false;
  text.remove_prefix(digits);
  return true;
}

bool skip(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  std::string_view rest = text;
  double total = 0;
  if (rest.empty()) return bad_duration(text);
  while (!rest.empty()) {
    double number = 0;
    if ((rest[0] < '0' || rest[0] > '9') && rest[0] != '.') return bad_duration(text);  // (from_chars reads "nan".)
    const auto [end, failed] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (failed != std::errc()) return bad_duration(text);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    double unit = 0;
    for (const Unit& each : kUnits) {
      if (unit != 0 || !rest.starts_with(each.name)) continue;
      unit = each.nanoseconds;
      rest.remove_prefix(each.name.size());
    }
    if (unit == 0) return bad_duration(text);
    total += number * unit;
  }
  if (total > 9e18) return bad_duration(text);
  return Duration(std::llround(total));
}

std::string format_duration(Duration duration) {
  constexpr std::array kExact = {std::pair{"d", Duration(std::chrono::hours(24))},
                                 std::pair{"h", Duration(std::chrono::hours(1))},
                                 std::pair{"m", Duration(std::chrono::minutes(1))},
                                 std::pair{"s", Duration(std::chrono::seconds(1))},
                                 std::pair{"ms", Duration(std::chrono::milliseconds(1))},
                                 std::pair{"us", Duration(std::chrono::microseconds(1))},
                                 std::pair{"ns", Duration(1)}};
  if (duration <= Duration::zero()) return "0s";
  std::string text;
  for (const auto& [name, unit] : kExact) {
    if (duration < unit) continue;
    text += std::to_string(duration / unit) + name;
    duration %= unit;
  }
  return text;
}

Result<WallTime> parse_time(std::string_view text) {
  std::string_view rest = text;
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  const bool good = read_number(rest, 4, year) && skip(rest, "-") && read_number(rest, 2, month) && skip(rest, "-") &&
                    read_number(rest, 2, day) && skip(rest, "Tt ") && read_number(rest, 2, hour) && skip(rest, ":") &&
                    read_number(rest, 2, minute) && skip(rest, ":") && read_number(rest, 2, second);
  const std::chrono::year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!good || !date.ok() || hour > 23 || minute > 59 || second > 60) return bad_time(text);
  std::chrono::microseconds fraction{};
  if (skip(rest, ".")) {
    int place = 100'000;
    bool any = false;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      fraction += std::chrono::microseconds((rest[0] - '0') * place);
      place /= 10;
      rest.remove_prefix(1);
      any = true;
    }
    if (!any) return bad_time(text);
  }
  std::chrono::minutes offset{};
  if (!skip(rest, "Zz")) {
    const bool is_west = rest.starts_with('-');
    int hours = 0;
    int minutes = 0;
    if (!skip(rest, "+-") || !read_number(rest, 2, hours) || !skip(rest, ":") || !read_number(rest, 2, minutes)) {
      return bad_time(text);
    }
    offset = (is_west ? -1 : 1) * (std::chrono::hours(hours) + std::chrono::minutes(minutes));
  }
  if (!rest.empty()) return bad_time(text);
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + fraction - offset;
}

std::string format_time(WallTime time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(time - days);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  std::string all = text.data();
  if (const auto micros = clock.subseconds().count(); micros != 0) {
    std::snprintf(text.data(), text.size(), ".%06d", static_cast<int>(micros));
    all += text.data();
    while (all.back() == '0') all.pop_back();
  }
  return all + "Z";
}

}  // namespace cohort
