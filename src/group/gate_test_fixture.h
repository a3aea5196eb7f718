#pragma once

#include "cohort/base/mutex.h"

namespace cohort {

/// A latch that a body waits at, in the kernel.
class Gate {
 public:
  void open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    MutexLock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    while (!open_) changed_.wait(mutex_);
  }
  void wait_for(int arrived) {
    MutexLock lock(mutex_);
    while (arrived_ < arrived) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ COHORT_GUARDED_BY(mutex_) = false;
  int arrived_ COHORT_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
