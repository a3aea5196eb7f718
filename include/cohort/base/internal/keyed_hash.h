#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::internal {

/// SipHash-1-3: a hash of texts that come from outside. Without its secret nobody can find texts that fall into one
/// bucket of a table.
///
/// Thread-safety: a value.
class KeyedHash {
 public:
  /// With a secret of this process, from the system's random numbers.
  KeyedHash();
  /// For tests.
  explicit KeyedHash(std::uint64_t secret) : KeyedHash(secret, ~secret) {}
  constexpr KeyedHash(std::uint64_t first, std::uint64_t second) : first_(first), second_(second) {}

  [[nodiscard]] std::uint64_t operator()(std::string_view text) const;

 private:
  std::uint64_t first_;
  std::uint64_t second_;
};

}  // namespace cohort::internal
