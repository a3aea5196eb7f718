#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "cohort/base/internal/block_pool.h"
#include "cohort/base/internal/intrusive_list.h"
#include "cohort/base/timer.h"
#include "cohort/base/token_bucket.h"
#include "cohort/task/group_stats.h"
#include "cohort/task/internal/task_record.h"
#include "group/chore.h"

namespace cohort::internal {

struct EndJob;

/// Takes the memory of its objects from the block pool, whose pages go back to the system.
struct InBlock {
  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* memory, std::size_t size) { free_block(memory, size); }
};
template <class T>
struct BlockAllocator {
  using value_type = T;
  BlockAllocator() = default;
  template <class Other>
  BlockAllocator(const BlockAllocator<Other>&) {}  // NOLINT(google-explicit-constructor): all of them are one.
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_block(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { free_block(memory, count * sizeof(T)); }
  friend bool operator==(const BlockAllocator&, const BlockAllocator&) { return true; }
};
using Key = std::basic_string<char, std::char_traits<char>, BlockAllocator<char>>;

using TaskList = IntrusiveList<TaskRecord>;

/// A group's place in one ReadySet.
struct ReadyHook {
  Group* previous = nullptr;
  Group* next = nullptr;
  std::int32_t place = -1;
};

/// The sets a group can be ready in, by what its next task needs besides a worker.
enum ReadyKind : std::uint8_t {
  kReadyToContinue,  ///< Nothing: a coroutine that holds its permits.
  kReadyUrgent,      ///< Layers 1 and 3: a resumed or awaited task.
  kReadyNormal,      ///< All layers, and room for parked tasks: an unawaited task.
  kReadyForChores,   ///< Nothing: users' code that follows from what has happened.
};
inline constexpr int kReadyKinds = 4;

/// Limits that many groups share.
struct SharedLimits : ResolvedLimits {
  explicit SharedLimits(const ResolvedLimits& limits)
      : ResolvedLimits(limits), most_open(std::uint64_t{limits.max_waiting} + limits.max_concurrency) {}
  void ref() { ++references; }
  void unref() {
    if (--references == 0) delete this;
  }
  std::uint64_t most_open;       ///< So many of its tasks may be without a result, while it may start any.
  std::uint32_t references = 1;  // Guarded by whatever guards the scheduler.
};

/// The part of a Group that every task touches, in a few cache lines.
struct alignas(64) BusyGroup {
  std::uint32_t waiting = 0;        ///< How many are in queues and awaited.
  std::uint32_t running = 0;        ///< Permits of layer 3 that are out.
  std::uint32_t own = 0;            ///< Places of layer 2 that are taken.
  std::uint32_t width = 1;          ///< How many may run, by all limits of its own; only while plain.
  std::uint32_t present = 0;        ///< Records that the scheduler knows.
  std::uint32_t charged = 0;        ///< Things it is being charged for right now.
  std::uint32_t last_sequence = 0;  ///< Of the last task that was queued.
  std::uint32_t hash = 0;           ///< Of its key.
  /// Nothing but unawaited tasks that wait or run, and no pause, rate or drain: then it is ready exactly when something
  /// waits and running < width.
  bool plain = false;
  bool paused = false;
  bool suspends = false;                        ///< The last of its tasks that came back had suspended in its turn.
  bool tends_to_block = false;                  ///< A driver's note: its tasks were found blocked.
  bool keeps_place = false;                     ///< It left the ready sets only because its layer 3 is full.
  std::uint8_t urgent_in_a_row = 0;             ///< Tasks that did not come out of the queue since the last that did.
  Bound bound = Bound::kNothing;                ///< What its waiting tasks wait for.
  std::uint8_t last_end = 0;                    ///< Where its tasks end in last_turn.
  std::array<TaskList, kPriorityCount> queues;  ///< kWaiting and not awaited.

  double served = 0;        ///< Time charged, over the weight, in nanoseconds; see scheduler_share.h.
  double expected_ns = -1;  ///< Moving average of one task's thread time; below 0: unknown.
  ReadyHook normal;
  std::uint32_t last_take = 0;   ///< The take that last took from it, modulo 2^32.
  float expected_whole_ns = -1;  ///< As expected_ns, from its start to its end.
  Ref<SharedLimits> limits;
  Time inactive_since{};
  Time no_demand_since{};  ///< When it left the ready sets.

  Time bound_since{};
  Duration blocked_by_workers{0};
  Turn* last_turn = nullptr;  ///< The turn of the last take, while that is out.
  TaskCounters counters;      ///< The first five of them.
};

/// All that the scheduler keeps of one group. Guarded by whatever guards the scheduler. What few groups need is made
/// when they do.
struct Group : BusyGroup, ListLinks<Group> {
  explicit Group(std::string_view name) : Group(name, TaskLabel::hash(name)) {}
  Group(std::string_view name, std::uint32_t key_hash) : key(name) { hash = key_hash; }

  [[nodiscard]] bool has_unawaited() const { return !queues[0].empty() || !queues[1].empty() || !queues[2].empty(); }
  [[nodiscard]] bool is_ready() const {
    return normal.place >= 0 || urgent.place >= 0 || to_continue.place >= 0 || for_chores.place >= 0;
  }
  /// Nothing of it is left that anybody could still come to.
  [[nodiscard]] bool is_unused() const {
    return present == 0 && drains == 0 && chores_open == 0 && jobs == nullptr && !unresolved;
  }
  void prefetch() const {
    const char* first = reinterpret_cast<const char*>(this);
    for (std::size_t line = 0; line < 3; ++line) __builtin_prefetch(first + 64 * line, 1);
  }

  // How many others there are, and where.
  std::uint32_t following = 0;      ///< In dependents.
  std::uint32_t at_door = 0;        ///< In door and callers.
  std::uint32_t resuming = 0;       ///< In resumed.
  std::uint32_t parked = 0;         ///< kParked and kResuming.
  std::uint32_t suspended = 0;      ///< kSuspended and kContinuing, permits held.
  std::uint32_t overrunning = 0;    ///< Settled by a time-out, body not back.
  std::uint32_t place = 0;          ///< GroupTable's.
  std::uint16_t drains = 0;         ///< How many wait for it to be empty: a thread or a task each.
  bool continued_last : 1 = false;  ///< The last task that it was given a worker for had only slept.
  bool did_chores : 1 = false;      ///< A worker was given its chores when it last came to the group.
  bool evict_soon : 1 = false;      ///< It is to be removed as soon as nothing of it is left.
  bool idle_listed : 1 = false;     ///< It stands in the line of those that may be evicted.
  bool unresolved : 1 = false;      ///< Its limits are not known yet: it starts nothing.
  std::uint32_t chores_open = 0;    ///< In `chores` and in turns.
  std::uint32_t refusals_open = 0;  ///< Those of them that are of tasks that were not taken in.
  std::uint32_t chore_turns = 0;    ///< How many workers are busy with its chores.
  float chore_ns = 0;               ///< Moving average of what one chore takes.
  Key key;
  TaskList awaited;     ///< kWaiting and awaited.
  TaskList resumed;     ///< kResuming.
  TaskList continuing;  ///< kContinuing.
  TaskList door;        ///< kAtDoor, for a place in the queue.
  TaskList callers;     ///< kAtDoor, to be run by the threads that wait there.
  TaskList aside;       ///< kSuspended and kParked.
  TaskList dependents;  ///< kDependent.
  ReadyHook urgent;
  ReadyHook to_continue;
  ReadyHook for_chores;
  ChoreQueue chores;
  Group* chores_before = nullptr;  ///< ChoreLine's.
  Group* chores_after = nullptr;
  Time chores_wait_since{};
  EndJob* jobs = nullptr;  ///< Those that are ending work of it right now. Meanwhile it starts nothing.
  Time in_line_since{};    ///< The line of those that may be evicted.
  struct Blocked : InBlock {
    Duration layer1_bound_before{0};
    std::array<Duration, kBoundCount> by{};
  };
  std::unique_ptr<Blocked> blocked;  ///< By all else that a task can wait for than a worker.

  struct Pace : InBlock {
    Pace(Group& owner, const Rate& rate, Time now) : bucket(rate, now), timer(owner) {}
    TokenBucket bucket;
    struct RateTimer : Timer {
      explicit RateTimer(Group& owner) : group(owner) {}
      Group& group;
    } timer;
  };
  std::unique_ptr<Pace> pace;  ///< Where it has a rate.

  struct Holding : InBlock {
    double expected_ns = 0;  ///< Moving average of the cost of one suspension.
    double due_ns = 0;       ///< What its suspended tasks have cost so far,
    double paid_ns = 0;      ///< what they are expected to cost in the end, ended ones exactly,
    double charged_ns = 0;   ///< and what has been charged: the greater of the two.
    Duration layer1_bound_before{0};
  };
  std::unique_ptr<Holding> holding;  ///< Where coroutines have slept and layer 1 is limited.
};

}  // namespace cohort::internal
