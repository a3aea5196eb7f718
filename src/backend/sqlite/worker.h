#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backend/sqlite/database.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"

namespace cohort::sqlite {

/// A call to the store on its way.
class Call {
 public:
  virtual ~Call() = default;
  /// Does it, within a transaction. Throws Failure.
  virtual void run() = 0;
  /// Tells the caller: what run() gave, or why it does not count.
  virtual void complete(const Error* failure) = 0;
};

template <class T, class Work>
class CallOf final : public Call {
 public:
  CallOf(Work work, Completion<T> done) : work_(std::move(work)), done_(std::move(done)) {}
  void run() override { answer_.emplace(work_()); }
  void complete(const Error* failure) override {
    if (failure != nullptr) {
      done_(*failure);
    } else {
      done_(*std::move(answer_));
    }
  }

 private:
  Work work_;
  Completion<T> done_;
  std::optional<Result<T>> answer_;
};

/// A thread with a queue of calls. It takes what has come in, does it together, and then tells the callers.
///
/// In a rush the callers are told by a second thread, so that the next calls are done meanwhile: waking callers takes
/// about as long as a transaction. A few callers are told by the first thread itself, which is sooner.
///
/// Thread-safety: add() is thread-safe.
class Worker {
 public:
  using Together = Function<std::optional<Error>(std::vector<std::unique_ptr<Call>>&)>;

  /// `together` runs the calls; what it gives holds for all of them.
  /// `in_background`: its thread gets less of a busy processor than others.
  Worker(const char* name, std::uint32_t max_queued, std::uint32_t max_batch, bool in_background, Together together);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { stop(); }
  /// Answers what is queued with kEnded, and whatever comes later.
  void stop();

  template <class T, class Work>
  void add(Work work, Completion<T> done) {
    add_call(std::make_unique<CallOf<T, Work>>(std::move(work), std::move(done)));
  }

 private:
  using Calls = std::vector<std::unique_ptr<Call>>;
  struct Done {
    Calls calls;
    std::optional<Error> failure;
  };
  static constexpr std::size_t kMaxDone = 8;
  static constexpr std::size_t kFew = 8;

  void add_call(std::unique_ptr<Call> call);
  void work();
  void answer();
  static void complete(Done& done);

  const std::uint32_t max_queued_;
  const std::uint32_t max_batch_;
  Together together_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::unique_ptr<Call>> queue_ COHORT_GUARDED_BY(mutex_);
  bool asleep_ COHORT_GUARDED_BY(mutex_) = false;
  bool ended_ COHORT_GUARDED_BY(mutex_) = false;
  std::deque<Done> done_ COHORT_GUARDED_BY(mutex_);  // For the second thread; at most kMaxDone.
  bool answers_ COHORT_GUARDED_BY(mutex_) = false;   // It is telling callers.
  bool answerer_ends_ COHORT_GUARDED_BY(mutex_) = false;
  CondVar answerable_;
  CondVar answered_;
  std::thread answerer_;
  std::thread thread_;
};

}  // namespace cohort::sqlite
