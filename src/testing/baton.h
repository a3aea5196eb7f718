#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "cohort/base/function.h"
#include "cohort/base/mutex.h"

namespace cohort::internal {

/// A thread that runs only while it has been given the baton. Giving it blocks the giver until it comes back, so of a
/// giver and all its threads exactly one runs at any time, and each hand-over orders everything before it.
///
/// Thread-safety: run() and go_on() by whoever has the baton; yield() by the thread itself.
class BatonThread {
 public:
  BatonThread();
  /// Its work must have ended.
  ~BatonThread();
  BatonThread(const BatonThread&) = delete;
  BatonThread& operator=(const BatonThread&) = delete;

  /// Runs `work` on it until it ends or yields.
  void run(Function<void()> work);
  /// Lets it go on after yield(), until it ends or yields again.
  void go_on();
  /// Called by the work: gives the baton back and waits for it.
  void yield();
  /// Whether its work has ended.
  [[nodiscard]] bool idle() const { return idle_; }

 private:
  void give() COHORT_EXCLUDES(mutex_);
  void loop();

  Mutex mutex_;
  CondVar passed_;
  bool has_baton_ COHORT_GUARDED_BY(mutex_) = false;
  bool ending_ COHORT_GUARDED_BY(mutex_) = false;
  Function<void()> work_;  // Touched only with the baton.
  bool idle_ = true;       // Likewise.
  std::thread thread_;
};

/// Keeps ended threads for the next use.
class BatonThreads {
 public:
  BatonThread& take();
  [[nodiscard]] std::size_t busy() const;

 private:
  std::vector<std::unique_ptr<BatonThread>> threads_;
};

}  // namespace cohort::internal
