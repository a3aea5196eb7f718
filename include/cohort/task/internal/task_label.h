#pragma once

#include <algorithm>
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
  /// One byte more than is allowed is kept of what is too long.
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxIdBytes = 256;

  TaskLabel(std::string_view key, std::string_view id)
      : key_size_(static_cast<std::uint16_t>(std::min(key.size(), kMaxKeyBytes + 1))),
        id_size_(static_cast<std::uint16_t>(std::min(id.size(), kMaxIdBytes + 1))) {
    char* bytes = in_place_.data();
    if (!is_in_place()) {
      bytes = static_cast<char*>(allocate_block(size()));
      std::memcpy(in_place_.data(), &bytes, sizeof(bytes));
    }
    key.copy(bytes, key_size_);
    id.copy(bytes + key_size_, id_size_);
    key_hash_ = hash(this->key());
  }
  TaskLabel(const TaskLabel&) = delete;
  TaskLabel& operator=(const TaskLabel&) = delete;
  ~TaskLabel() {
    if (!is_in_place()) free_block(bytes(), size());
  }

  [[nodiscard]] std::string_view key() const { return {bytes(), key_size_}; }
  [[nodiscard]] std::string_view id() const { return {bytes() + key_size_, id_size_}; }
  [[nodiscard]] std::uint32_t key_hash() const { return key_hash_; }

  [[nodiscard]] static std::uint32_t hash(std::string_view key) {
    std::uint64_t sum = key.size();
    const char* next = key.data();
    std::size_t left = key.size();
    for (; left > 8; left -= 8, next += 8) sum = mixed(sum, word(next, 8));
    sum = mixed(sum, word(next, left));
    return static_cast<std::uint32_t>(sum ^ (sum >> 32));
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
  static std::uint64_t word(const char* from, std::size_t size) {
    std::uint64_t value = 0;
    if (size != 0) std::memcpy(&value, from, size);
    return value;
  }
  static std::uint64_t mixed(std::uint64_t sum, std::uint64_t value) {
    sum = (sum ^ value) * 0x9E37'79B9'7F4A'7C15ULL;
    return sum ^ (sum >> 29);
  }

  std::uint16_t key_size_;
  std::uint16_t id_size_;
  std::uint32_t key_hash_ = 0;
  std::array<char, 16> in_place_;
};

}  // namespace cohort::internal
