#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cohort/base/assert.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Where submitters leave tasks for the scheduler without taking its lock: a ring of tickets.
///
/// 1. A submitter takes the next tickets (`tail_`), so the order of tickets is the order in which tasks are queued: for
///    one thread that of its submits, for several one in which a submit that had returned comes before one that had not
///    begun.
/// 2. The place of ticket t is t modulo the size. It is free for t once `head_` has passed t - size, and filled once
///    its `ticket` is t + 1. Both are stored (release) after, and loaded (acquire) before, what is in the place is
///    touched.
/// 3. Whoever takes out holds the scheduler's lock. He stops at a ticket that has been taken but not filled yet.
/// 4. A submitter who finds his place still full takes out himself: a full ring slows submitters down. Whoever waits
///    for room waits only for tickets before his own, so somebody can always go on.
///
/// The places of several tickets are filled from the last to the first, so that all of them are there when the first
/// is. The store of the first, and all loads of tickets, are sequentially consistent, see ThreadDriver.
///
/// Thread-safety: put() and looks_empty() are thread-safe; all else under the scheduler's lock.
class Inbox {
 public:
  static constexpr std::uint32_t kSize = 4096;

  Inbox() : places_(std::make_unique<Place[]>(kSize)) {}

  /// At least one, and not more than the size. Where there is no room for all it calls `make_room(has_room)`, which
  /// returns once `has_room()` is true.
  template <class MakeRoom>
  void put(std::span<TaskRecord* const> records, MakeRoom&& make_room) {
    const std::uint64_t first = tail_.fetch_add(records.size(), std::memory_order_relaxed);
    const std::uint64_t last = first + records.size() - 1;
    if (last - head_.load(std::memory_order_acquire) >= kSize) {
      make_room([&] { return last - head_.load(std::memory_order_acquire) < kSize; });
    }
    for (std::uint64_t ticket = last; ticket > first; --ticket) {
      Place& place = places_[ticket % kSize];
      place.record = records[ticket - first];
      place.ticket.store(ticket + 1, std::memory_order_release);
    }
    Place& place = places_[first % kSize];
    place.record = records.front();
    place.ticket.store(first + 1, std::memory_order_seq_cst);
  }

  /// The task `ahead` places behind the first, without taking it out; null where there is none.
  [[nodiscard]] TaskRecord* peek(std::uint32_t ahead) const {
    const std::uint64_t ticket = head_.load(std::memory_order_relaxed) + ahead;
    const Place& place = places_[ticket % kSize];
    return place.ticket.load(std::memory_order_seq_cst) == ticket + 1 ? place.record : nullptr;
  }
  /// Takes the first `count` out, which peek() has seen.
  void pop(std::uint32_t count) {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

  /// Whether all tickets up to now have been taken out; those of other threads may come any time.
  [[nodiscard]] bool is_drained_to(std::uint64_t ticket) const {
    return head_.load(std::memory_order_relaxed) >= ticket;
  }
  [[nodiscard]] std::uint64_t next_ticket() const { return tail_.load(std::memory_order_acquire); }

  [[nodiscard]] bool looks_empty() const {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return places_[head % kSize].ticket.load(std::memory_order_seq_cst) != head + 1;
  }

 private:
  struct Place {
    std::atomic<std::uint64_t> ticket{0};
    TaskRecord* record = nullptr;
  };

  std::unique_ptr<Place[]> places_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};  // Written under the scheduler's lock; others only look.
};

}  // namespace cohort::internal
