#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/mutex.h"

namespace cohort {

/// So many at a time and no more: what is slow cannot take everything with it.
///
///     Bulkhead bulkhead(50);
///     if (Bulkhead::Place place = bulkhead.enter()) call();
///
/// Thread-safety: thread-safe. Places must go before it is destroyed.
class Bulkhead {
 public:
  /// A place inside, or none. Its end frees it.
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
    explicit operator bool() const { return bulkhead_ != nullptr; }
    void leave() {
      if (bulkhead_ != nullptr) std::exchange(bulkhead_, nullptr)->leave();
    }

   private:
    friend class Bulkhead;
    explicit Place(Bulkhead* bulkhead) : bulkhead_(bulkhead) {}
    Bulkhead* bulkhead_ = nullptr;
  };

  /// 0 becomes 1.
  explicit Bulkhead(std::uint32_t max_concurrent = 50);
  Bulkhead(const Bulkhead&) = delete;
  Bulkhead& operator=(const Bulkhead&) = delete;

  /// Waits for a place for at most `max_wait`, by the time of the machine; not at all unless it is told to.
  Place enter(Duration max_wait = Duration::zero());

  /// Growth takes effect at once, shrinking as places become free.
  void resize(std::uint32_t max_concurrent);
  [[nodiscard]] bool has_room() const {
    return inside_.load(std::memory_order_relaxed) < most_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t inside() const { return inside_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t max_concurrent() const { return most_.load(std::memory_order_relaxed); }
  /// How often there was no place.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

 private:
  bool try_enter();
  void leave();

  std::atomic<std::uint32_t> most_;
  std::atomic<std::uint32_t> inside_{0};
  std::atomic<std::uint64_t> rejected_{0};
  // Who waits counts himself and then tries once more; who leaves frees his place and then looks whether somebody
  // waits. Both are sequentially consistent, so one of them sees the other.
  std::atomic<std::uint32_t> waiting_{0};
  Mutex mutex_;
  CondVar freed_;
};

}  // namespace cohort
