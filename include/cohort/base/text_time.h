#pragma once

#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// "1h30m", "5m", "2.5s", "500ms", "20us", "7d". kInvalid says what was expected.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
/// The shortest text that parse_duration reads as the same.
[[nodiscard]] std::string format_duration(Duration duration);

/// "2026-11-16T05:00:00Z", with up to six digits of a second and any offset (RFC 3339).
[[nodiscard]] Result<WallTime> parse_time(std::string_view text);
/// In UTC; with a fraction where there is one.
[[nodiscard]] std::string format_time(WallTime time);

}  // namespace cohort
