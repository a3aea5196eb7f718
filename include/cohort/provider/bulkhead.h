#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"

namespace cohort {

/// Limits the number of calls at a time, so that a slow provider cannot occupy all threads.
///
///     Bulkhead bulkhead(50);
///     if (Bulkhead::Place place = bulkhead.enter()) call();
///
/// Thread-safety: thread-safe. All places must be destroyed before the bulkhead.
class Bulkhead {
 public:
  /// The right to make one call, or no right if the bulkhead was full. The destructor gives the right back.
  class [[nodiscard]] Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : bulkhead_(std::exchange(other.bulkhead_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      leave();
      bulkhead_ = std::exchange(other.bulkhead_, nullptr);
      return *this;
    }
    ~Place() { leave(); }
    /// True if the call may be made.
    explicit operator bool() const { return bulkhead_ != nullptr; }
    /// Gives the right back.
    void leave() {
      if (bulkhead_ != nullptr) std::exchange(bulkhead_, nullptr)->leave();
    }

   private:
    friend class Bulkhead;
    explicit Place(Bulkhead* bulkhead) : bulkhead_(bulkhead) {}
    Bulkhead* bulkhead_ = nullptr;
  };

  /// Corrects a `max_concurrent` of 0 to 1 and logs a warning.
  explicit Bulkhead(std::uint32_t max_concurrent = 50);
  Bulkhead(const Bulkhead&) = delete;
  Bulkhead& operator=(const Bulkhead&) = delete;

  /// Takes a place. If there is none, waits at most `max_wait` for one, measured by std::chrono::steady_clock. By
  /// default it does not wait. Returns an empty Place if there was no place.
  Place enter(Duration max_wait = Duration::zero());

  /// Changes the number of places. Growing takes effect at once, shrinking as places become free.
  void resize(std::uint32_t max_concurrent);
  /// True if a place is free.
  [[nodiscard]] bool has_room() const {
    return inside_.load(std::memory_order_relaxed) < most_.load(std::memory_order_relaxed);
  }
  /// The number of places in use.
  [[nodiscard]] std::uint32_t inside() const { return inside_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t max_concurrent() const { return most_.load(std::memory_order_relaxed); }
  /// How often enter() found no place.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

 private:
  bool try_enter();
  void leave();

  std::atomic<std::uint32_t> most_;
  std::atomic<std::uint32_t> inside_{0};
  std::atomic<std::uint64_t> rejected_{0};
  // A waiting thread increments waiting_ and then tries to enter again. A leaving thread decrements inside_ and then
  // reads waiting_. All four operations are sequentially consistent, so one of the two threads sees the other.
  std::atomic<std::uint32_t> waiting_{0};
  Mutex mutex_;
  CondVar freed_;
};

}  // namespace cohort
