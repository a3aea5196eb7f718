#include "group/group_table.h"

#include <algorithm>
#include <new>
#include <utility>

namespace cohort::internal {

GroupTable::~GroupTable() {
  for_each([](Group& group) { group.~Group(); });
}

Group& GroupTable::insert(std::string_view key, std::uint32_t hash) {
  if (2 * (size_ + 1) > entries_.size()) resize(2 * entries_.size());
  const std::uint32_t number = allocate();
  auto* group = ::new (slabs_[number / kSlabSize].places[number % kSlabSize].bytes) Group(key, hash);
  group->place = number;
  put({number, hash});
  ++size_;
  return *group;
}

std::uint32_t GroupTable::allocate() {
  if (not_full_.empty()) {
    not_full_.push_back(static_cast<std::uint32_t>(slabs_.size()));
    slabs_.emplace_back();
  }
  const std::uint32_t number = not_full_.back();
  Slab& slab = slabs_[number];
  if (slab.places == nullptr) {
    slab.places.reset(new Slab::Place[kSlabSize]);
    for (std::size_t i = kSlabSize; i-- > 0;) {
      ::new (slab.places[i].bytes) Slab::Place*(slab.free);
      slab.free = &slab.places[i];
    }
  }
  Slab::Place* place = slab.free;
  slab.free = *std::launder(reinterpret_cast<Slab::Place**>(place->bytes));
  slab.taken.set(static_cast<std::size_t>(place - slab.places.get()));
  if (++slab.used == kSlabSize) not_full_.pop_back();
  return static_cast<std::uint32_t>(number * kSlabSize + static_cast<std::size_t>(place - slab.places.get()));
}

void GroupTable::free(Group& group) {
  const auto number = static_cast<std::uint32_t>(group.place / kSlabSize);
  Slab& slab = slabs_[number];
  const std::size_t number_in_slab = group.place % kSlabSize;
  Slab::Place* place = &slab.places[number_in_slab];
  group.~Group();
  ::new (place->bytes) Slab::Place*(slab.free);
  slab.free = place;
  slab.taken.reset(number_in_slab);
  if (slab.used-- == kSlabSize) not_full_.push_back(number);
  if (slab.used == 0) slab = {};
}

void GroupTable::put(Entry entry) {
  std::size_t place = entry.hash & mask_;
  while (entries_[place].number != kNone) place = (place + 1) & mask_;
  entries_[place] = entry;
}

void GroupTable::erase(Group& group) {
  std::size_t hole = group.hash & mask_;
  while (entries_[hole].number != group.place) hole = (hole + 1) & mask_;
  entries_[hole] = {};
  free(group);
  // Whoever stands behind the hole and would be looked for in front of it, or in it, moves there.
  for (std::size_t place = (hole + 1) & mask_; entries_[place].number != kNone; place = (place + 1) & mask_) {
    const std::size_t home = entries_[place].hash & mask_;
    if (((place - home) & mask_) < ((place - hole) & mask_)) continue;
    entries_[hole] = std::exchange(entries_[place], Entry());
    hole = place;
  }
  --size_;
  if (entries_.size() > kSmallest && 16 * size_ < entries_.size()) resize(entries_.size() / 4);
}

void GroupTable::resize(std::size_t places) {
  std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(std::max(places, kSmallest)));
  mask_ = entries_.size() - 1;
  for (Entry& entry : old) {
    if (entry.number != kNone) put(entry);
  }
}

}  // namespace cohort::internal
