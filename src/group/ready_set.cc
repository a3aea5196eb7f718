#include "group/ready_set.h"

#include <algorithm>
#include <bit>

namespace cohort::internal {

// `place` in a hook is the bucket's index while near, kBuckets + the place in the heap while far.

// As min(), for all cases.
Group* ReadySet::search() {
  while (size_ != 0) {
    Group* behind = front_of_heap();
    if (occupied_ != 0) {
      base_ += std::countr_zero(std::rotr(occupied_, static_cast<int>(index(base_))));
    } else {
      base_ = bucket_of(behind->served);
    }
    if (behind != nullptr) {
      const std::int64_t bucket = bucket_of(behind->served);
      if (bucket < base_) return behind;
      if (bucket < base_ + kBuckets) {
        erase_far(*behind);
        insert_near(*behind, bucket);
        continue;
      }
    }
    Group* group = buckets_[index(base_)].first;
    // It may have been charged since it was put in: then it belongs farther back.
    if (bucket_of(group->served) <= base_) return group;
    update(*group);
  }
  return nullptr;
}

// The heap is ordered by the keys that its groups were put in with; whoever has been charged since goes back by his
// new key first.
Group* ReadySet::front_of_heap() {
  while (!heap_.empty()) {
    const auto [key, group] = heap_.front();
    if (bucket_of(group->served) <= bucket_of(key)) return group;
    erase_far(*group);
    insert_far(*group);
  }
  return nullptr;
}

void ReadySet::put_far(std::size_t place, Far far) {
  heap_[place] = far;
  hook(*far.group).place = static_cast<std::int32_t>(place) + kBuckets;
}

void ReadySet::insert_far(Group& group) {
  heap_.push_back({group.served, &group});
  put_far(heap_.size() - 1, heap_.back());
  settle_far(heap_.size() - 1);
}

void ReadySet::erase_far(Group& group) {
  const auto place = static_cast<std::size_t>(hook(group).place - kBuckets);
  hook(group) = {};
  const Far last = heap_.back();
  heap_.pop_back();
  if (last.group == &group) return;
  put_far(place, last);
  settle_far(place);
}

// Moves the group at `place` up or down to where it belongs.
void ReadySet::settle_far(std::size_t place) {
  const auto swap = [this](std::size_t a, std::size_t b) {
    const Far first = heap_[a];
    put_far(a, heap_[b]);
    put_far(b, first);
  };
  while (place > 0 && heap_[place].key < heap_[(place - 1) / 2].key) {
    swap(place, (place - 1) / 2);
    place = (place - 1) / 2;
  }
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= heap_.size()) return;
    if (child + 1 < heap_.size() && heap_[child + 1].key < heap_[child].key) ++child;
    if (!(heap_[child].key < heap_[place].key)) return;
    swap(place, child);
    place = child;
  }
}

}  // namespace cohort::internal
