#pragma once

#include "chain/chain_calls.h"
#include "chain/chain_lease.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Calls to the store whose outcome the runner must know. An answer that says neither yes nor no is asked for again,
/// with longer and longer pauses, for as long as the boot that asked has its lease: a runner that gave up sooner would
/// leave a row that no other node may touch. The store answers a repeated call as it answered the first.
///
/// Thread-safety: thread-safe. The lock guards until when calls are repeated. The store is called without it.
class SureCalls {
 public:
  SureCalls(TaskStore& store, Executor& executor, ChainCalls& calls, const ChainLease& lease)
      : store_(store), executor_(executor), calls_(calls), lease_(lease) {}

  void claim(ClaimRequest request, Completion<ClaimAnswer> done) {
    claim(std::move(request), kFirstWait, std::move(done));
  }
  void write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) {
    this->write(std::move(claim), number, std::move(write), kFirstWait, std::move(done));
  }
  /// No call is repeated after that time.
  void give_up_at(Time time) {
    MutexLock lock(mutex_);
    gives_up_at_ = time;
  }

 private:
  static constexpr Duration kFirstWait = std::chrono::milliseconds(20);
  static constexpr Duration kLongestWait = std::chrono::seconds(1);

  void claim(ClaimRequest request, Duration wait, Completion<ClaimAnswer> done);
  void write(Claim claim, std::uint64_t number, RunnerWrite write, Duration wait, Completion<ChainRow> done);
  [[nodiscard]] bool is_worth_repeating(const Error& error, const std::string& boot) const;

  TaskStore& store_;
  Executor& executor_;
  ChainCalls& calls_;
  const ChainLease& lease_;
  mutable Mutex mutex_;
  std::optional<Time> gives_up_at_ COHORT_GUARDED_BY(mutex_);
};

}  // namespace cohort
