#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

/// The SHA-256 of what is put in piece by piece (FIPS 180-4).
///
/// Thread-safety: thread-compatible.
class Sha256 {
 public:
  void update(std::string_view bytes);
  /// In 64 lower-case hexadecimal digits. Nothing may come after.
  [[nodiscard]] std::string finish();

 private:
  static constexpr std::size_t kBlock = 64;
  void add_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, kBlock> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace cohort
