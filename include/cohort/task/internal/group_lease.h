#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/internal/block_pool.h"
#include "cohort/base/internal/ref.h"

namespace cohort::internal {

/// The activity of an owner of work: how many of its tasks are open, and when it was last active.
///
/// Thread-safety: thread-safe.
class Activity {
 public:
  explicit Activity(Time now) : last_(now.time_since_epoch().count()) {}
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void enter() { open_.fetch_add(1, std::memory_order_relaxed); }
  void leave() { open_.fetch_sub(1, std::memory_order_release); }
  void touch(Time at) {
    const Time::rep time = at.time_since_epoch().count();
    Time::rep last = last_.load(std::memory_order_relaxed);
    while (last < time && !last_.compare_exchange_weak(last, time, std::memory_order_relaxed)) {
    }
  }
  /// Returns `now` while tasks are open, else the time of the last activity.
  [[nodiscard]] Time last(Time now) const {
    if (open_.load(std::memory_order_acquire) != 0) return now;
    return Time(Duration(last_.load(std::memory_order_relaxed)));
  }

 protected:
  virtual ~Activity() = default;

 private:
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> open_{0};
  std::atomic<Time::rep> last_;
};

/// The right to submit to a group until the lease is closed. A GroupToken refers to a GroupLease.
///
/// `state_` holds in one word how many tasks of the lease an executor has, and whether the lease is closed. So a submit
/// (enter) and a close have an order. If the submit comes first, the closing thread sees the task and asks the executor
/// to cancel it. If the close comes first, the executor sees the closed lease when it takes the task in, and rejects
/// the task.
///
/// The key stands behind the object, in the same memory block: make a lease with make_lease().
///
/// Thread-safety: thread-safe.
class GroupLease {
 public:
  GroupLease(std::string_view stored_key, Ref<Activity> activity);
  GroupLease(const GroupLease&) = delete;
  GroupLease& operator=(const GroupLease&) = delete;

  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }

  [[nodiscard]] std::string_view key() const { return {key_, key_size_}; }
  [[nodiscard]] std::uint32_t key_hash() const { return key_hash_; }
  [[nodiscard]] Activity* activity() const { return activity_.get(); }

  /// Call it before a task of the lease is handed to an executor.
  void enter() {
    if (activity_) activity_->enter();
    state_.fetch_add(1, std::memory_order_acq_rel);
  }
  /// Call it when the executor has finished with a task of the lease, at the time `at`.
  void leave(Time at) {
    const bool was_open = (state_.fetch_sub(1, std::memory_order_acq_rel) & kClosed) == 0;
    if (!activity_) return;
    if (was_open) activity_->touch(at);
    activity_->leave();
  }
  /// Closes the lease. Returns true if an executor has tasks of the lease.
  bool close() { return (state_.fetch_or(kClosed, std::memory_order_acq_rel) & ~kClosed) != 0; }
  [[nodiscard]] bool is_closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  [[nodiscard]] std::uint32_t open_tasks() const { return state_.load(std::memory_order_acquire) & ~kClosed; }

 protected:
  virtual ~GroupLease() = default;

 private:
  static constexpr std::uint32_t kClosed = 1U << 31;

  // The counterpart of make_lease(): the memory block ends with the key.
  void destroy() {
    const auto size = static_cast<std::size_t>(key_ + key_size_ - reinterpret_cast<const char*>(this));
    this->~GroupLease();
    free_block(this, size);
  }

  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> state_{0};
  const char* key_;
  std::uint32_t key_size_;
  std::uint32_t key_hash_;
  Ref<Activity> activity_;
};

/// Makes a `Lease(key, arguments...)` with room for its key. GroupLease must be the first base class of Lease.
template <class Lease, class... Arguments>
Ref<Lease> make_lease(std::string_view key, Arguments&&... arguments) {
  static_assert(alignof(Lease) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "what a group carries cannot be over-aligned");
  void* block = allocate_block(sizeof(Lease) + key.size());
  char* stored = static_cast<char*>(block) + sizeof(Lease);
  if (!key.empty()) std::memcpy(stored, key.data(), key.size());
  try {
    return Ref<Lease>::adopt(::new (block)
                                 Lease(std::string_view(stored, key.size()), std::forward<Arguments>(arguments)...));
  } catch (...) {
    free_block(block, sizeof(Lease) + key.size());
    throw;
  }
}

}  // namespace cohort::internal
