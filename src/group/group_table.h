#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "group/group.h"

namespace cohort::internal {

/// The groups by their keys; owns them. Whoever looks one up brings the hash of the key with him.
///
/// Open addressing, linear probing, at most half full; a removed entry is filled by those behind it, so that keys which
/// come and go leave nothing behind. It shrinks again when nearly all of it is empty.
///
/// Thread-safety: thread-compatible.
class GroupTable {
 public:
  [[nodiscard]] Group* find(std::string_view key, std::uint32_t hash) const {
    for (std::size_t place = hash & mask_;; place = (place + 1) & mask_) {
      const Entry& entry = entries_[place];
      if (entry.group == nullptr) return nullptr;
      if (entry.hash == hash && entry.group->key == key) return entry.group.get();
    }
  }

  /// The key must not be there yet.
  Group& insert(std::unique_ptr<Group> group);
  /// Destroys the group.
  void erase(Group& group);
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Hints that the group of that hash is about to be looked up.
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&entries_[hash & mask_]); }
  void prefetch_group(std::uint32_t hash) const {
    const Group* group = entries_[hash & mask_].group.get();
    if (group != nullptr) group->prefetch();
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.group != nullptr) visit(*entry.group);
    }
  }

 private:
  static constexpr std::size_t kSmallest = 16;
  struct Entry {
    std::unique_ptr<Group> group;
    std::uint32_t hash = 0;
  };

  void resize(std::size_t places);
  void put(Entry entry);

  std::vector<Entry> entries_ = std::vector<Entry>(kSmallest);
  std::size_t mask_ = kSmallest - 1;
  std::size_t size_ = 0;
};

}  // namespace cohort::internal
