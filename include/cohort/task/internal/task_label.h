#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cohort/base/internal/block_pool.h"
#include "cohort/task/internal/group_lease.h"

namespace cohort::internal {

/// Names the group of a task by a key, or by a lease that has a key.
struct GroupAddress {
  template <class Key>
    requires std::convertible_to<const Key&, std::string_view>
  GroupAddress(const Key& group_key) : key(group_key) {}  // NOLINT(google-explicit-constructor): a key is one.
  explicit GroupAddress(GroupLease& group_lease) : key(group_lease.key()), lease(&group_lease) {}

  std::string_view key;
  GroupLease* lease = nullptr;
};

/// The key of a task's group and the task's id. They are stored in place if they have at most 16 bytes together. A task
/// with a lease uses the lease's key, and stores its id in place if it has at most 8 bytes.
///
/// Each task carries its key itself, so that the key is known even after the group has been evicted. A shared key would
/// need a reference count that every task has to change.
///
/// Thread-safety: thread-compatible.
class TaskLabel {
 public:
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxIdLength = 256;

  /// Cuts a key or id that is too long to one byte more than the limit, so that the executor still sees the error.
  TaskLabel(const GroupAddress& group, std::string_view id);
  TaskLabel(const TaskLabel& other)
      : key_size_(other.key_size_),
        leased_(other.leased_),
        id_size_(other.id_size_),
        key_hash_(other.key_hash_),
        in_place_(other.in_place_) {
    if (leased_ != 0) own_lease().ref();
    if (!is_in_place()) copy_elsewhere(other);
  }
  TaskLabel& operator=(const TaskLabel&) = delete;
  ~TaskLabel() {
    if (!is_in_place()) free_block(bytes(), size());
    if (leased_ != 0) own_lease().unref();
  }

  [[nodiscard]] std::string_view key() const {
    return leased_ != 0 ? own_lease().key() : std::string_view(bytes(), key_size_);
  }
  [[nodiscard]] std::string_view id() const { return {bytes() + own_key_size(), id_size_}; }
  [[nodiscard]] std::uint32_t key_hash() const { return key_hash_; }
  /// Null if a key names the group.
  [[nodiscard]] GroupLease* lease() const { return leased_ != 0 ? &own_lease() : nullptr; }
  /// The lease of a label that has one.
  [[nodiscard]] GroupLease& own_lease() const { return *static_cast<GroupLease*>(pointer_at(0)); }
  /// The address for another task of this group, with the lease of this label if it has one.
  [[nodiscard]] GroupAddress address() const { return leased_ != 0 ? GroupAddress(own_lease()) : GroupAddress(key()); }

  /// Hashes a key with a secret of this process, so that an attacker cannot choose keys that collide in a table.
  [[nodiscard]] static std::uint32_t hash(std::string_view key);
  /// Gives a == b; for short names it is quicker than memcmp.
  [[nodiscard]] static bool equal(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    if (a.size() > 16) return a == b;
    if (a.size() >= 8) {
      const std::size_t last = a.size() - 8;
      return word(a.data()) == word(b.data()) && word(a.data() + last) == word(b.data() + last);
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  // The texts that the label itself holds begin behind the pointer to its lease, if it has one.
  [[nodiscard]] std::size_t own_key_size() const { return leased_ != 0 ? 0 : key_size_; }
  [[nodiscard]] std::size_t first() const { return leased_ != 0 ? sizeof(GroupLease*) : 0; }
  [[nodiscard]] std::size_t size() const { return own_key_size() + id_size_; }
  [[nodiscard]] bool is_in_place() const { return first() + size() <= in_place_.size(); }
  [[nodiscard]] char* bytes() const {
    if (is_in_place()) return const_cast<char*>(in_place_.data()) + first();
    return static_cast<char*>(pointer_at(first()));
  }
  [[nodiscard]] void* pointer_at(std::size_t place) const {
    void* pointer = nullptr;
    std::memcpy(&pointer, in_place_.data() + place, sizeof(pointer));
    return pointer;
  }
  void copy_elsewhere(const TaskLabel& other);
  static std::uint64_t word(const char* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  std::uint16_t key_size_;
  std::uint16_t leased_ : 1;
  std::uint16_t id_size_ : 15;
  std::uint32_t key_hash_;
  std::array<char, 16> in_place_;
};

}  // namespace cohort::internal
