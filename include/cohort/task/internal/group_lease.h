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

/// Something whose work is watched: how much is open, and when it was last heard of.
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
  /// `now` while something is open, else the last time something was heard of.
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

/// The right to submit to a group, until it is closed: what a GroupToken refers to.
///
/// `state_` holds in one word how many tasks an executor has that came with it, and whether it is closed. So of a
/// submit (enter) and a close one is first: either the one who closes sees the task, and asks the executor to cancel
/// it, or the executor sees that it is closed when it takes the task in, and rejects it.
///
/// The key stands behind the object, in the same block: make one with make_lease.
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

  /// A task is about to be handed to an executor,
  void enter() {
    if (activity_) activity_->enter();
    state_.fetch_add(1, std::memory_order_acq_rel);
  }
  /// and that is through with it.
  void leave(Time at) {
    const bool was_open = (state_.fetch_sub(1, std::memory_order_acq_rel) & kClosed) == 0;
    if (!activity_) return;
    if (was_open) activity_->touch(at);
    activity_->leave();
  }
  /// True when there are tasks that came with it.
  bool close() { return (state_.fetch_or(kClosed, std::memory_order_acq_rel) & ~kClosed) != 0; }
  [[nodiscard]] bool is_closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  [[nodiscard]] std::uint32_t open_tasks() const { return state_.load(std::memory_order_acquire) & ~kClosed; }

 protected:
  virtual ~GroupLease() = default;

 private:
  static constexpr std::uint32_t kClosed = 1U << 31;

  // The counterpart of make_lease: its block ends with its key.
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

/// Makes a `Lease(key, arguments...)` with room for its key. Lease is a GroupLease before it is anything else.
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
