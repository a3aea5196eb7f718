#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cohort::internal {

/// Keys of groups, by their hashes: it may take one that is not in it for one that is, never the other way round. Keys
/// are not taken out again.
///
/// Thread-safety: thread-safe. Whoever has not heard of add() may not see it.
class KeySet {
 public:
  void add(std::uint32_t hash) { word(hash).fetch_or(bit(hash), std::memory_order_relaxed); }
  void add_all() {
    for (auto& each : words_) each.store(~std::uint64_t{0}, std::memory_order_relaxed);
  }
  [[nodiscard]] bool may_have(std::uint32_t hash) const {
    return (words_[hash % (kBits / 64)].load(std::memory_order_relaxed) & bit(hash)) != 0;
  }

 private:
  static constexpr std::uint32_t kBits = 4096;
  std::atomic<std::uint64_t>& word(std::uint32_t hash) { return words_[hash % (kBits / 64)]; }
  static std::uint64_t bit(std::uint32_t hash) { return std::uint64_t{1} << (hash / (kBits / 64) % 64); }

  std::array<std::atomic<std::uint64_t>, kBits / 64> words_{};
};

}  // namespace cohort::internal
