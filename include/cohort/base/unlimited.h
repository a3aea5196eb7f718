#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace cohort {

/// The value of a limit that does not limit.
inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

/// A number of tasks or threads, from any integer: a negative one is 0, and one that does not fit is kUnlimited.
class Limit {
 public:
  template <std::integral T>
  constexpr Limit(T number)  // NOLINT(google-explicit-constructor): it stands for the number.
      : value_(std::cmp_less(number, 0)            ? 0
               : std::cmp_less(number, kUnlimited) ? static_cast<std::uint32_t>(number)
                                                   : kUnlimited) {}
  constexpr operator std::uint32_t() const { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  std::uint32_t value_;
};

}  // namespace cohort
