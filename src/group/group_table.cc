#include "group/group_table.h"

#include <utility>

namespace cohort::internal {

Group& GroupTable::insert(std::unique_ptr<Group> group) {
  if (2 * (size_ + 1) > entries_.size()) resize(2 * entries_.size());
  Group& inserted = *group;
  put({std::move(group), inserted.hash});
  ++size_;
  return inserted;
}

void GroupTable::put(Entry entry) {
  std::size_t place = entry.hash & mask_;
  while (entries_[place].group != nullptr) place = (place + 1) & mask_;
  entries_[place] = std::move(entry);
}

void GroupTable::erase(Group& group) {
  std::size_t hole = group.hash & mask_;
  while (entries_[hole].group.get() != &group) hole = (hole + 1) & mask_;
  entries_[hole].group.reset();
  // Whoever stands behind the hole and would be looked for in front of it, or in it, moves there.
  for (std::size_t place = (hole + 1) & mask_; entries_[place].group != nullptr; place = (place + 1) & mask_) {
    const std::size_t home = entries_[place].hash & mask_;
    if (((place - home) & mask_) < ((place - hole) & mask_)) continue;
    entries_[hole] = std::move(entries_[place]);
    hole = place;
  }
  --size_;
  if (entries_.size() > kSmallest && 16 * size_ < entries_.size()) resize(entries_.size() / 4);
}

void GroupTable::resize(std::size_t places) {
  std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(std::max(places, kSmallest)));
  mask_ = entries_.size() - 1;
  for (Entry& entry : old) {
    if (entry.group != nullptr) put(std::move(entry));
  }
}

}  // namespace cohort::internal
