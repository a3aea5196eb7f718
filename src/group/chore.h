#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/base/clock.h"
#include "cohort/base/error.h"
#include "cohort/base/function.h"
#include "cohort/base/timer.h"
#include "cohort/task/internal/task_record.h"

namespace cohort::internal {

/// Why the executor has ended a task that its body did not end.
enum class Why : std::uint8_t {
  kCancelled,
  kGroupShutDown,
  kExecutorShutDown,
  kTokenClosed,
  kTimedOutWaiting,
  kTimedOutRunning,
  kTimedOutBefore,  ///< It was submitted.
  kFull,
  kNoRoomToFollow,
  kDiscarded,
  kDraining,
  kHopeless,  ///< It would have waited longer than its time allows.
  kKeyEmpty,
  kKeyTooLong,
  kIdTooLong,
  kTokenWasClosed,
  kExecutorWasShutDown,
};

/// With the numbers that its text needs: the text itself is made when no lock is held.
struct Reason {
  Reason(Why what) : why(what) {}  // NOLINT(google-explicit-constructor): most need no numbers.
  Reason(Why what, std::array<std::uint32_t, 4> with) : why(what), numbers(with) {}
  Why why;
  std::array<std::uint32_t, 4> numbers{};
};

/// For kFull: how full the group is.
[[nodiscard]] std::string text_of(const Reason& how_full, std::string_view group);
/// What the handle of such a task gives.
[[nodiscard]] Error error_of(const TaskRecord& record, const Reason& reason);

/// A call that is to be made at some time.
struct Alarm : Timer {
  explicit Alarm(Function<void()> what) : call(std::move(what)) {}
  Function<void()> call;
};

/// Something that may run code of a user's and follows from an event: it is done with no lock held, by the caller whose
/// own call the event was, or else by a worker, in the share of its group. Whoever takes one does it, exactly once.
struct Chore {
  enum class Kind : std::uint8_t {
    kSettle,   ///< Write the error, publish, and drop the body if it never ran. The record has been claimed.
    kStop,     ///< Ask the body to stop.
    kDrop,     ///< The executor's own reference.
    kRelease,  ///< Any other reference.
    kCall,     ///< An alarm.
    kResolve,  ///< Ask for the limits of a group on its first use.
  };

  Kind kind;
  bool ran = false;      ///< kSettle: the body has begun.
  bool forgets = false;  ///< kSettle: afterwards the executor's reference goes too.
  bool refuses = false;  ///< Of a task that was not taken in: there is one for each, however fast they come.
  Reason reason = Why::kCancelled;
  union {
    TaskRecord* record;  ///< With a reference.
    Alarm* alarm;        ///< Owned.
    Group* group;        ///< It stays as long as this is open.
  };

  static Chore settle(TaskRecord& record, const Reason& reason, bool ran, bool forgets) {
    if (!forgets) record.ref();  // Else it has the executor's.
    Chore chore{.kind = Kind::kSettle, .ran = ran, .forgets = forgets, .reason = reason, .record = &record};
    return chore;
  }
  static Chore stop(TaskRecord& record) {
    record.ref();
    return {.kind = Kind::kStop, .record = &record};
  }
  static Chore drop(TaskRecord& record) { return {.kind = Kind::kDrop, .record = &record}; }
  static Chore release(TaskRef record) { return {.kind = Kind::kRelease, .record = record.release()}; }
  static Chore call(Alarm& alarm) { return {.kind = Kind::kCall, .alarm = &alarm}; }
  static Chore resolve(Group& group) { return {.kind = Kind::kResolve, .group = &group}; }
};

/// Does a chore. `Host` is a driver: it has a `clock()`, and `tell_settled(record, now)` and `resolve(group)`.
template <class Host>
void perform(const Chore& chore, Host& host) {
  switch (chore.kind) {
    case Chore::Kind::kSettle: {
      TaskRecord& record = *chore.record;
      record.set_error(error_of(record, chore.reason));
      if (!chore.ran) record.drop_body();
      const Time now = host.clock().now();
      host.tell_settled(record, now);
      record.publish(now);
      chore.forgets ? record.drop_executors_reference(now) : record.unref();
      break;
    }
    case Chore::Kind::kStop: TaskRef::adopt(chore.record)->request_stop(); break;
    case Chore::Kind::kDrop: chore.record->drop_executors_reference(host.clock().now()); break;
    case Chore::Kind::kRelease: chore.record->unref(); break;
    case Chore::Kind::kCall: std::unique_ptr<Alarm>(chore.alarm)->call(); break;
    case Chore::Kind::kResolve: host.resolve(*chore.group); break;
  }
}

/// The chores of one group, first in, first out. Costs two pointers while it is empty.
///
/// Thread-safety: thread-compatible.
class ChoreQueue {
 public:
  ChoreQueue() = default;
  ChoreQueue(const ChoreQueue&) = delete;
  ChoreQueue& operator=(const ChoreQueue&) = delete;
  ~ChoreQueue() { COHORT_ASSERT(empty(), "every chore is done"); }

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  void push_back(const Chore& chore) {
    if (last_ == nullptr || last_->end == Block::kPlaces) {
      auto* block = new Block;
      (last_ == nullptr ? first_ : last_->next) = block;
      last_ = block;
    }
    last_->places[last_->end++] = chore;
  }
  void push_front(const Chore& chore) {
    if (first_ == nullptr) return push_back(chore);
    if (first_->begin == 0) {
      auto* block = new Block;
      block->next = std::exchange(first_, block);
      block->begin = block->end = Block::kPlaces;
    }
    first_->places[--first_->begin] = chore;
  }
  /// Not from an empty one.
  Chore pop_front() {
    const Chore chore = first_->places[first_->begin++];
    if (first_->begin == first_->end) {
      Block* const done = std::exchange(first_, first_->next);
      if (first_ == nullptr) last_ = nullptr;
      delete done;
    }
    return chore;
  }

 private:
  struct Block {
    static constexpr std::uint32_t kPlaces = 15;
    static void* operator new(std::size_t size) { return allocate_block(size); }
    static void operator delete(void* block, std::size_t size) { free_block(block, size); }
    Block* next = nullptr;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::array<Chore, kPlaces> places;
  };
  Block* first_ = nullptr;
  Block* last_ = nullptr;
};

}  // namespace cohort::internal
