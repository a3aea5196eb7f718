#include "group/group_table.h"

#include <algorithm>
#include <new>
#include <utility>

namespace cohort::internal {
namespace {

constexpr std::size_t kMovedAtOnce = 32;

}  // namespace

GroupTable::~GroupTable() {
  for_each([](Group& group) { group.~Group(); });
  for (Slab& slab : slabs_) {
    if (slab.places != nullptr) give_page(slab.places);
  }
}

Group& GroupTable::insert(std::string_view key, std::uint32_t hash) {
  if (2 * (size_ + 1) > table_.size()) resize(2 * table_.size());
  move_some(kMovedAtOnce);
  const std::uint32_t number = allocate();
  auto* group = ::new (slabs_[number / kSlabSize].places[number % kSlabSize].bytes) Group(key, hash);
  group->place = number;
  put({number + 1, hash});
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
    slab.places = static_cast<Slab::Place*>(take_page());
    for (std::size_t i = kSlabSize; i-- > 0;) {
      ::new (slab.places[i].bytes) Slab::Place*(slab.free);
      slab.free = &slab.places[i];
    }
  }
  Slab::Place* place = slab.free;
  slab.free = *std::launder(reinterpret_cast<Slab::Place**>(place->bytes));
  slab.taken.set(static_cast<std::size_t>(place - slab.places));
  if (++slab.used == kSlabSize) not_full_.pop_back();
  return static_cast<std::uint32_t>(number * kSlabSize + static_cast<std::size_t>(place - slab.places));
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
  if (slab.used != 0) return;
  give_page(slab.places);
  slab = {};
}

void GroupTable::put(Entry entry) {
  std::size_t place = entry.hash & table_.mask();
  while (table_[place].number != kNone) place = (place + 1) & table_.mask();
  table_[place] = entry;
}

void GroupTable::erase(Group& group) {
  take_out(group);
  free(group);
  --size_;
  if (table_.size() > kSmallest && 16 * size_ < table_.size()) resize(table_.size() / 4);
  move_some(kMovedAtOnce);
}

std::size_t GroupTable::place_in(const Table& table, const Group& group) {
  std::size_t place = group.hash & table.mask();
  while (table[place].number != kNone && table[place].number != group.place + 1) place = (place + 1) & table.mask();
  return place;
}

void GroupTable::take_out(const Group& group) {
  std::size_t hole = place_in(table_, group);
  if (table_[hole].number == kNone) {
    old_[place_in(old_, group)].number = kMoved;
    return;
  }
  table_[hole] = {};
  // Whoever stands behind the hole and would be looked for in front of it, or in it, moves there.
  for (std::size_t place = (hole + 1) & table_.mask(); table_[place].number != kNone;
       place = (place + 1) & table_.mask()) {
    const std::size_t home = table_[place].hash & table_.mask();
    if (((place - home) & table_.mask()) < ((place - hole) & table_.mask())) continue;
    table_[hole] = std::exchange(table_[place], Entry());
    hole = place;
  }
}

// Before the next resize is due, as many groups have come or gone as it takes to move all.
void GroupTable::resize(std::size_t places) {
  move_some(old_.size());
  old_ = std::exchange(table_, Table(std::max(places, kSmallest)));
  moved_ = 0;
}

void GroupTable::move_some(std::size_t places) {
  for (; places > 0 && moved_ < old_.size(); --places) {
    Entry& entry = old_[moved_++];
    if (entry.number == kNone) continue;
    if (entry.number != kMoved) put(entry);
    entry.number = kMoved;
  }
  if (moved_ == old_.size()) old_ = Table();
}

}  // namespace cohort::internal
