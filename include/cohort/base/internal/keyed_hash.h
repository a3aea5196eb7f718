#pragma once

#include <cstdint>
#include <string_view>

namespace cohort::internal {

/// Hashes texts that come from outside (SipHash-1-3). An attacker who does not know the secret cannot find texts that
/// fall into one bucket of a table.
///
/// Thread-safety: thread-compatible.
class KeyedHash {
 public:
  /// Uses the secret of this process, which comes from the system's random numbers.
  KeyedHash();
  /// Uses a fixed secret, for tests.
  explicit KeyedHash(std::uint64_t secret) : KeyedHash(secret, ~secret) {}
  constexpr KeyedHash(std::uint64_t first, std::uint64_t second) : first_(first), second_(second) {}

  [[nodiscard]] std::uint64_t operator()(std::string_view text) const;

 private:
  std::uint64_t first_;
  std::uint64_t second_;
};

}  // namespace cohort::internal
