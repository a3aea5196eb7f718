#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "cohort/base/internal/pages.h"
#include "group/group.h"

namespace cohort::internal {

/// The groups by their keys; owns them. Whoever looks one up brings the hash of the key with him.
///
/// Open addressing, linear probing, at most half full; a removed entry is filled by those behind it, so that keys which
/// come and go leave nothing behind. It grows, and shrinks again when nearly all of it is empty, a few entries at a
/// time: until all have moved into the new table the old one is looked into as well. The groups themselves stand in
/// slabs, so that they begin at a cache line; a slab is a page of our own, and goes with its last group.
///
/// Thread-safety: thread-compatible.
class GroupTable {
 public:
  GroupTable() = default;
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;
  ~GroupTable();

  [[nodiscard]] Group* find(std::string_view key, std::uint32_t hash) const {
    Group* const group = find_in(table_, key, hash);
    return group != nullptr || old_.size() == 0 ? group : find_in(old_, key, hash);
  }

  /// Makes the group of a key that is not there yet.
  Group& insert(std::string_view key, std::uint32_t hash);
  /// Destroys the group.
  void erase(Group& group);
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Hints that the group of that hash is about to be looked up.
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&table_.at(hash)); }
  void prefetch_group(std::uint32_t hash) const {
    const Entry& entry = table_.at(hash);
    if (entry.number == kNone) return;
    const Group& group = group_of(entry.number - 1);
    group.prefetch();
    __builtin_prefetch(&group.key);
  }

  /// The first one at that place or behind it, or null.
  [[nodiscard]] Group* next(std::size_t place) const {
    for (; place < slabs_.size() * kSlabSize; ++place) {
      const Slab& slab = slabs_[place / kSlabSize];
      if (slab.used == 0) {
        place += kSlabSize - 1 - place % kSlabSize;
      } else if (slab.taken[place % kSlabSize]) {
        return &group_of(static_cast<std::uint32_t>(place));
      }
    }
    return nullptr;
  }

  /// By their places in memory: hashes differ from one process to the next, and runs are to be repeatable.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t number = 0; number < slabs_.size(); ++number) {
      for (std::size_t place = 0; slabs_[number].used != 0 && place < kSlabSize; ++place) {
        if (slabs_[number].taken[place]) visit(group_of(static_cast<std::uint32_t>(number * kSlabSize + place)));
      }
    }
  }

 private:
  static constexpr std::size_t kSmallest = 16;
  static constexpr std::size_t kSlabSize = kPageBytes / sizeof(Group);
  static constexpr std::uint32_t kNone = 0;
  static constexpr std::uint32_t kMoved = 0xFFFF'FFFF;
  struct Entry {
    std::uint32_t number;  // 1 + that of a group: its slab and its place there. kMoved: only in an old table.
    std::uint32_t hash;
  };
  // As long as a power of two.
  struct Table : ZeroedArray<Entry> {
    using ZeroedArray::ZeroedArray;
    [[nodiscard]] std::size_t mask() const { return size() - 1; }
    [[nodiscard]] const Entry& at(std::uint32_t hash) const { return (*this)[hash & mask()]; }
  };
  // Places for groups, free ones linked through their first bytes.
  struct Slab {
    struct alignas(alignof(Group)) Place {
      std::byte bytes[sizeof(Group)];
    };
    Place* places = nullptr;  // A page. Null: there is none of this number now.
    Place* free = nullptr;
    std::size_t used = 0;
    std::bitset<kSlabSize> taken;
  };
  [[nodiscard]] Group& group_of(std::uint32_t number) const {
    return *std::launder(reinterpret_cast<Group*>(slabs_[number / kSlabSize].places[number % kSlabSize].bytes));
  }

  Group* find_in(const Table& table, std::string_view key, std::uint32_t hash) const {
    for (std::size_t place = hash & table.mask();; place = (place + 1) & table.mask()) {
      const Entry& entry = table[place];
      if (entry.number == kNone) return nullptr;
      if (entry.hash != hash || entry.number == kMoved) continue;
      Group& group = group_of(entry.number - 1);
      if (TaskLabel::equal(group.key, key)) return &group;
    }
  }

  void resize(std::size_t places);
  void move_some(std::size_t places);
  void put(Entry entry);
  void take_out(const Group& group);
  [[nodiscard]] static std::size_t place_in(const Table& table, const Group& group);
  std::uint32_t allocate();
  void free(Group& group);

  Table table_{kSmallest};
  Table old_;              // Empty, unless its entries are on their way into the other one,
  std::size_t moved_ = 0;  // as far as here.
  std::size_t size_ = 0;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> not_full_;  // The numbers of slabs with a free place, or without memory.
};

}  // namespace cohort::internal
