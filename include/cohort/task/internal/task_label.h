#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cohort/base/internal/block_pool.h"

namespace cohort::internal {

/// A group's key and a task's id, together in place up to 16 bytes.
///
/// Each task carries its key, so that it can tell it when its group has long been evicted, without anything shared that
/// every task would have to count.
///
/// Thread-safety: thread-compatible.
class TaskLabel {
 public:
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxIdBytes = 256;

  /// One byte more than is allowed is kept of what is too long.
  TaskLabel(std::string_view key, std::string_view id);
  TaskLabel(const TaskLabel&) = delete;
  TaskLabel& operator=(const TaskLabel&) = delete;
  ~TaskLabel() {
    if (!is_in_place()) free_block(bytes(), size());
  }

  [[nodiscard]] std::string_view key() const { return {bytes(), key_size_}; }
  [[nodiscard]] std::string_view id() const { return {bytes() + key_size_, id_size_}; }
  [[nodiscard]] std::uint32_t key_hash() const { return key_hash_; }

  [[nodiscard]] static std::uint32_t hash(std::string_view key);
  /// As a == b; for short names quicker than memcmp.
  [[nodiscard]] static bool equal(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    if (a.size() < 8 || a.size() > 16) return a == b;
    const std::size_t last = a.size() - 8;
    return word(a.data()) == word(b.data()) && word(a.data() + last) == word(b.data() + last);
  }

 private:
  [[nodiscard]] std::size_t size() const { return std::size_t{key_size_} + id_size_; }
  [[nodiscard]] bool is_in_place() const { return size() <= in_place_.size(); }
  [[nodiscard]] char* bytes() const {
    if (is_in_place()) return const_cast<char*>(in_place_.data());
    char* elsewhere = nullptr;
    std::memcpy(&elsewhere, in_place_.data(), sizeof(elsewhere));
    return elsewhere;
  }
  static std::uint64_t word(const char* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  std::uint16_t key_size_;
  std::uint16_t id_size_;
  std::uint32_t key_hash_;
  std::array<char, 16> in_place_;
};

}  // namespace cohort::internal
