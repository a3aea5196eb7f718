#pragma once

#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// Reads a duration such as "1h30m", "5m", "2.5s", "500ms", "20us" or "7d". Any other text fails with kInvalid.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
/// Writes a duration in whole units, such as "1h30m" or "2s500ms", for parse_duration. A negative one becomes "0s".
[[nodiscard]] std::string format_duration(Duration duration);

/// Reads an RFC 3339 time such as "2026-11-16T05:00:00Z", with any offset. Of a fraction of a second, only the first
/// six digits count. Any other text fails with kInvalid.
[[nodiscard]] Result<WallTime> parse_time(std::string_view text);
/// Writes an RFC 3339 time in UTC, with a fraction of a second only if it is not zero.
[[nodiscard]] std::string format_time(WallTime time);

}  // namespace cohort
