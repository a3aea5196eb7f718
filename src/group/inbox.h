#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cohort/base/assert.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Where submitters leave tasks for the scheduler without taking its lock: a ring of tickets.
///
/// 1. A submitter takes the next ticket (`tail_`), so the order of tickets is the order in which tasks are queued: for
///    one thread that of its submits, for several one in which a submit that had returned comes before one that had not
///    begun.
/// 2. The place of ticket t is t modulo the size. Its `turn` is t when it is free for t, t + 1 once the task is in it,
///    and t + size when it has been taken out again. Both sides write what they have to before they store the turn
///    (release) and read it after they have loaded it (acquire).
/// 3. Whoever takes out holds the scheduler's lock. He stops at a ticket that has been taken but not filled yet.
/// 4. A submitter who finds his place still full takes out himself: a full ring slows submitters down.
///
/// The store of the turn by put() and the loads of looks_empty() are sequentially consistent, see ThreadDriver.
///
/// Thread-safety: put() and looks_empty() are thread-safe; all else under the scheduler's lock.
class Inbox {
 public:
  static constexpr std::uint32_t kSize = 4096;
  static constexpr std::uintptr_t kNoteMask = 7;  ///< Three bits that travel with a task.

  Inbox() : places_(std::make_unique<Place[]>(kSize)) {
    for (std::uint64_t i = 0; i < kSize; ++i) places_[i].turn.store(i, std::memory_order_relaxed);
  }

  /// Calls `make_room()` until there is a place.
  template <class MakeRoom>
  void put(TaskRecord& record, std::uintptr_t note, MakeRoom&& make_room) {
    const std::uint64_t ticket = tail_.fetch_add(1, std::memory_order_relaxed);
    Place& place = places_[ticket % kSize];
    while (place.turn.load(std::memory_order_acquire) != ticket) make_room();
    place.entry = reinterpret_cast<std::uintptr_t>(&record) | note;
    place.turn.store(ticket + 1, std::memory_order_seq_cst);
  }

  struct Entry {
    TaskRecord* record;
    std::uintptr_t note;
  };
  /// The entry `ahead` places behind the first, without taking it out. The record is null where there is none.
  [[nodiscard]] Entry peek(std::uint32_t ahead) const {
    const Place& place = places_[(head_.load(std::memory_order_relaxed) + ahead) % kSize];
    const std::uint64_t expected = head_.load(std::memory_order_relaxed) + ahead + 1;
    if (place.turn.load(std::memory_order_acquire) != expected) return {nullptr, 0};
    return {reinterpret_cast<TaskRecord*>(place.entry & ~kNoteMask), place.entry & kNoteMask};
  }
  /// Takes the first `count` out, which peek() has seen.
  void pop(std::uint32_t count) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count; ++i) {
      places_[(head + i) % kSize].turn.store(head + i + kSize, std::memory_order_release);
    }
    head_.store(head + count, std::memory_order_relaxed);
  }

  /// Whether all tickets up to now have been taken out; those of other threads may come any time.
  [[nodiscard]] bool is_drained_to(std::uint64_t ticket) const {
    return head_.load(std::memory_order_relaxed) >= ticket;
  }
  [[nodiscard]] std::uint64_t next_ticket() const { return tail_.load(std::memory_order_acquire); }

  [[nodiscard]] bool looks_empty() const {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    return places_[head % kSize].turn.load(std::memory_order_seq_cst) != head + 1;
  }

 private:
  struct Place {
    std::atomic<std::uint64_t> turn;
    std::uintptr_t entry = 0;
  };

  std::unique_ptr<Place[]> places_;
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};  // Written under the scheduler's lock; others only look.
};

}  // namespace cohort::internal
