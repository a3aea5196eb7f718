#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "cohort/base/assert.h"
#include "cohort/base/mutex.h"

namespace cohort {

/// Counts what an engine has under way: its tickets, and its calls to store and broker. Each of them holds a
/// reference that keeps the engine alive, and the engine ends when the last one is gone.
///
/// Thread-safety: thread-safe. The lock guards the count. `idle` is called without it.
class ChainCalls {
 public:
  using Idle = std::function<void()>;

  /// Before the first hold(). A hold keeps `owner` alive; `idle` is called whenever the last hold is gone.
  void bind(std::weak_ptr<void> owner, Idle idle) {
    owner_ = std::move(owner);
    idle_ = std::move(idle);
  }

  /// While one exists, close() of the engine waits, so store, broker and executor may be used.
  class Hold {
   public:
    Hold(const Hold& other) : owner_(other.owner_), calls_(other.calls_) { calls_->begin(); }
    Hold(Hold&& other) noexcept : owner_(std::move(other.owner_)), calls_(std::exchange(other.calls_, nullptr)) {}
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (calls_ != nullptr) calls_->end();
    }

   private:
    friend class ChainCalls;
    Hold(std::shared_ptr<void> owner, ChainCalls& calls) : owner_(std::move(owner)), calls_(&calls) { calls.begin(); }

    std::shared_ptr<void> owner_;
    ChainCalls* calls_;
  };

  [[nodiscard]] Hold hold() {
    std::shared_ptr<void> owner = owner_.lock();
    COHORT_ASSERT(owner != nullptr, "an engine makes calls only while it lives");
    return {std::move(owner), *this};
  }
  /// Null if the engine is gone. For callbacks that may come at any time.
  [[nodiscard]] std::shared_ptr<Hold> try_hold() {
    std::shared_ptr<void> owner = owner_.lock();
    return owner ? std::shared_ptr<Hold>(new Hold(std::move(owner), *this)) : nullptr;
  }
  /// The engine, for callbacks that may come when it is gone.
  [[nodiscard]] std::weak_ptr<void> owner() const { return owner_; }
  [[nodiscard]] bool is_idle() const {
    MutexLock lock(mutex_);
    return count_ == 0;
  }

 private:
  void begin() {
    MutexLock lock(mutex_);
    ++count_;
  }
  void end() {
    {
      MutexLock lock(mutex_);
      if (--count_ != 0) return;
    }
    idle_();
  }

  std::weak_ptr<void> owner_;
  Idle idle_;
  mutable Mutex mutex_;
  std::uint32_t count_ COHORT_GUARDED_BY(mutex_) = 0;
};

}  // namespace cohort
