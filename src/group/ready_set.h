#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "group/group.h"

namespace cohort::internal {

/// The groups that are ready, by how much they have been served; the least served first, within 25 us.
///
/// A wheel of 64 buckets of 25 us holds the near ones, so that putting in and taking out cost a few nanoseconds; a heap
/// holds those farther ahead, and the few that come in behind the wheel's first bucket. Within a bucket the order is
/// first in, first out. A group's `served` may grow while it is in the set: min() notices. When it shrinks, call
/// update().
///
/// Thread-safety: thread-compatible.
class ReadySet {
 public:
  /// By the hook that its groups have for it.
  explicit ReadySet(ReadyHook Group::*hook) : hook_(hook) {}

  void insert(Group& group) {
    const std::int64_t bucket = bucket_of(group.served);
    if (size_++ == 0) base_ = bucket;
    if (bucket >= base_ && bucket < base_ + kBuckets) {
      insert_near(group, bucket);
    } else {
      insert_far(group);
    }
  }
  void erase(Group& group) {
    --size_;
    if (hook(group).place < kBuckets) {
      erase_near(group);
    } else {
      erase_far(group);
    }
  }
  [[nodiscard]] bool contains(const Group& group) const { return hook(group).place >= 0; }
  void update(Group& group) {
    erase(group);
    insert(group);
  }

  /// Hints that groups a few places behind `group`, and their first tasks, are about to be taken.
  void prefetch_after(const Group& group) const {
    const Group* next = &group;
    for (int i = 0; i < 3; ++i) {
      next = hook(*next).next;
      if (next == nullptr) return;
    }
    if (const TaskRecord* task = next->queues[static_cast<std::size_t>(Priority::kNormal)].front()) task->prefetch();
    for (int i = 0; i < 2; ++i) {
      next = hook(*next).next;
      if (next == nullptr) return;
    }
    next->prefetch();
  }

  /// The least served group, or null.
  Group* min() {
    if (size_ == 0) return nullptr;
    Group* first = buckets_[index(base_)].first;
    const bool found = heap_.empty() && first != nullptr && bucket_of(first->served) <= base_;
    return found ? first : search();
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Calls `visit(group)` for near groups from the least served on, until it returns false.
  template <class Visit>
  void visit_in_order(Visit&& visit) const {
    if (!heap_.empty() && bucket_of(heap_.front().key) < base_ && !visit(*heap_.front().group)) return;
    for (std::int64_t bucket = base_; bucket < base_ + kBuckets; ++bucket) {
      for (const Group* group = buckets_[index(bucket)].first; group != nullptr; group = hook(*group).next) {
        if (!visit(*group)) return;
      }
    }
    if (!heap_.empty() && bucket_of(heap_.front().key) >= base_) visit(*heap_.front().group);
  }

 private:
  static constexpr int kBuckets = 64;
  static constexpr double kWidth = 25'000;
  struct Bucket {
    Group* first = nullptr;
    Group* last = nullptr;
  };

  struct Far {
    double key;  ///< What it was put in with.
    Group* group;
  };

  ReadyHook& hook(Group& group) const { return group.*hook_; }
  [[nodiscard]] const ReadyHook& hook(const Group& group) const { return group.*hook_; }
  static std::size_t index(std::int64_t bucket) { return static_cast<std::size_t>(bucket) % kBuckets; }
  static std::int64_t bucket_of(double served) { return static_cast<std::int64_t>(served * (1 / kWidth)); }

  void insert_near(Group& group, std::int64_t bucket) {
    const std::size_t place = index(bucket);
    Bucket& list = buckets_[place];
    hook(group) = {.previous = list.last, .next = nullptr, .place = static_cast<std::int32_t>(place)};
    (list.last != nullptr ? hook(*list.last).next : list.first) = &group;
    list.last = &group;
    occupied_ |= 1ULL << place;
  }
  void erase_near(Group& group) {
    ReadyHook& own = hook(group);
    Bucket& list = buckets_[static_cast<std::size_t>(own.place)];
    (own.previous != nullptr ? hook(*own.previous).next : list.first) = own.next;
    (own.next != nullptr ? hook(*own.next).previous : list.last) = own.previous;
    if (list.first == nullptr) occupied_ &= ~(1ULL << own.place);
    own = {};
  }
  Group* search();
  void insert_far(Group& group);
  void erase_far(Group& group);
  void settle_far(std::size_t place);
  void put_far(std::size_t place, Far far);
  Group* front_of_heap();

  ReadyHook Group::*hook_;
  std::size_t size_ = 0;
  std::int64_t base_ = 0;  ///< The first bucket of the wheel.
  std::uint64_t occupied_ = 0;
  std::array<Bucket, kBuckets> buckets_;
  std::vector<Far> heap_;
};

}  // namespace cohort::internal
