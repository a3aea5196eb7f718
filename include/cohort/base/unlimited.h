#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace cohort {

/// The value of a limit that means "no limit".
inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

/// A number of tasks or threads, made from any integer. A negative integer becomes 0; one too large becomes kUnlimited.
class Limit {
 public:
  template <std::integral T>
  constexpr Limit(T number)  // NOLINT(google-explicit-constructor): it stands for the number.
      : value_(std::cmp_less(number, 0)            ? 0
               : std::cmp_less(number, kUnlimited) ? static_cast<std::uint32_t>(number)
                                                   : kUnlimited),
        was_negative_(std::cmp_less(number, 0)) {}
  constexpr operator std::uint32_t() const { return value_; }  // NOLINT(google-explicit-constructor)

  /// True if the integer was negative: not a 0 that was asked for.
  [[nodiscard]] constexpr bool was_negative() const { return was_negative_; }

 private:
  std::uint32_t value_;
  bool was_negative_;
};

}  // namespace cohort
