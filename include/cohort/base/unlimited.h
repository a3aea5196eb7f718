#pragma once

#include <cstdint>
#include <limits>

namespace cohort {

/// The value of a limit that does not limit.
inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

}  // namespace cohort
