#pragma once

#include <functional>
#include <string>

#include "chain/chain_calls.h"
#include "chain/chain_random.h"
#include "cohort/base/mutex.h"
#include "cohort/chain/chain_options.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// This node's lease in the store, under a boot: one life of the node with the store. A node that cannot renew its
/// lease in time stops what it runs, and joins again under a new boot.
///
/// On a store that nodes do not share, no lease can be lost.
///
/// Thread-safety: thread-safe. The lock guards the boot, whether it has a lease, and when it was renewed. The store,
/// `begin` and `lost` are called without it.
class ChainLease {
 public:
  /// Called when a boot has its lease, before anything is claimed under it.
  using Begin = std::function<void(const std::string& boot, bool is_first, Completion<void> done)>;
  using Lost = std::function<void()>;

  ChainLease(TaskStore& store, ChainCalls& calls, ChainRandom& random, const ChainOptions& options, Begin begin,
             Lost lost);

  /// Begins a lease under a new boot.
  void join(Completion<void> done);
  /// Renews the lease, joins again without one, or finds that the lease is lost. Called once a second.
  void tick();
  /// Gives the boot to leave the store with; empty if there is no lease.
  [[nodiscard]] std::string give_up();

  [[nodiscard]] bool is_held() const;
  /// True while this boot has its lease.
  [[nodiscard]] bool is_held_by(const std::string& boot) const;
  [[nodiscard]] std::string boot() const;
  [[nodiscard]] std::uint64_t times_lost() const;

 private:
  void renew(std::string boot);
  void lose(const char* why);
  [[nodiscard]] Duration length() const { return store_.is_shared() ? options_.lease : Duration::max(); }
  void end_renewal() {
    MutexLock lock(mutex_);
    is_renewing_ = false;
  }

  TaskStore& store_;
  ChainCalls& calls_;
  ChainRandom& random_;
  const ChainOptions& options_;
  const Begin begin_;
  const Lost lost_;
  Clock& clock_;  // Goes on while the machine sleeps.

  mutable Mutex mutex_;
  std::string boot_ COHORT_GUARDED_BY(mutex_);
  bool is_held_ COHORT_GUARDED_BY(mutex_) = false;
  bool is_renewing_ COHORT_GUARDED_BY(mutex_) = false;
  Time renewed_ COHORT_GUARDED_BY(mutex_){};  // When the last good renewal was sent.
  std::uint64_t times_lost_ COHORT_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
