#pragma once

#include "group/group.h"

namespace cohort::internal {

/// The groups whose chores wait for a worker, in the order in which that wait began. A group that a worker comes for
/// goes to the end, if chores are left.
///
/// Thread-safety: thread-compatible.
class ChoreLine {
 public:
  [[nodiscard]] Group* front() const { return first_; }
  void push_back(Group& group, Time now) {
    group.chores_wait_since = now;
    group.chores_before = last_;
    group.chores_after = nullptr;
    (last_ != nullptr ? last_->chores_after : first_) = &group;
    last_ = &group;
  }
  void erase(Group& group) {
    (group.chores_before != nullptr ? group.chores_before->chores_after : first_) = group.chores_after;
    (group.chores_after != nullptr ? group.chores_after->chores_before : last_) = group.chores_before;
    group.chores_before = group.chores_after = nullptr;
  }

 private:
  Group* first_ = nullptr;
  Group* last_ = nullptr;
};

}  // namespace cohort::internal
