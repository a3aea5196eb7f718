#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/task/executor.h"
#include "cohort/task/promise.h"

namespace cohort {

/// Lets a step that is suspected of taking nodes down run alone, so that nobody else is blamed for it: it waits until
/// nothing runs, and nothing begins until it has ended. Then the others have the node for as long as it had.
///
/// Thread-safety: thread-safe.
class AloneGate {
 public:
  explicit AloneGate(Executor& executor) : executor_(executor) {}

  /// An invalid handle: it is inside. Else it is once that is done.
  [[nodiscard]] TaskHandle<void> enter(bool alone, std::string task_id = {});
  void leave(bool alone);
  /// Nobody is alone, nor waits for it: who is inside may go on with his next step.
  [[nodiscard]] bool is_clear() const;
  /// Looks whether the others have had their time. To be called now and then.
  void look();
  /// Lets everybody in from now on.
  void close();

  /// The task that is inside alone (empty: none), and the tasks that wait for that.
  [[nodiscard]] std::string alone() const;
  [[nodiscard]] std::vector<std::string> suspects() const;

 private:
  struct Place {
    Promise<void> promise;
    std::string task_id;
  };
  using Waiting = std::deque<Place>;
  /// Who may enter now. To be settled without the lock.
  [[nodiscard]] Waiting admit() COHORT_REQUIRES(mutex_);
  [[nodiscard]] bool suspect_is_next() const COHORT_REQUIRES(mutex_);
  static void let_in(Waiting in);

  Executor& executor_;
  mutable Mutex mutex_;
  std::uint32_t inside_ COHORT_GUARDED_BY(mutex_) = 0;
  bool is_alone_ COHORT_GUARDED_BY(mutex_) = false;
  std::string alone_task_ COHORT_GUARDED_BY(mutex_);
  bool is_closed_ COHORT_GUARDED_BY(mutex_) = false;
  Time alone_since_ COHORT_GUARDED_BY(mutex_){};
  Time others_until_ COHORT_GUARDED_BY(mutex_){};
  Waiting waiting_ COHORT_GUARDED_BY(mutex_);
  Waiting suspects_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort
