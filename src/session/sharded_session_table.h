#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/base/histogram.h"
#include "cohort/base/internal/intrusive_list.h"
#include "cohort/base/internal/keyed_hash.h"
#include "cohort/base/mutex.h"
#include "cohort/base/timer.h"
#include "cohort/session/internal/session_table.h"
#include "cohort/task/executor.h"
#include "session/inline_list.h"
#include "session/split_table.h"

namespace cohort::internal {

/// A session: an Activity that its groups' leases share. All else is guarded by its shard's lock.
struct SessionState final : Activity, Timer, ListLinks<SessionState> {
  SessionState(const SessionId& session, std::uint32_t hash_of_id, Time now)
      : Activity(now), hash_(hash_of_id), id(session) {}

  [[nodiscard]] std::uint32_t hash() const { return hash_; }
  /// Hints that all of it is about to be used, not only what it is found by.
  void prefetch() const {
    const char* const first = reinterpret_cast<const char*>(this);
    for (std::size_t at = 0; at < sizeof(SessionState); at += 64) __builtin_prefetch(first + at, 1);
  }

  void add(GroupEntry& group) {
    group.place_ = static_cast<std::uint32_t>(groups.size());
    groups.push_back({&group, group.hash()});
  }
  void drop(GroupEntry& group) {
    groups[group.place_] = groups.back();
    groups[group.place_].entry->place_ = group.place_;
    groups.pop_back();
  }

  SessionState* next_ = nullptr;   ///< In its bucket.
  SessionState** link_ = nullptr;  ///< What points to it there.
  std::uint32_t hash_;
  bool ended = false;    ///< Then it is only a mark; its last groups may still be on their way out.
  bool unknown = false;  ///< It was never there before it ended.
  const SessionId id;
  /// With its hash, so that its bucket can be asked for together with the group itself.
  struct Listed {
    GroupEntry* entry;
    std::uint32_t hash;
  };
  InlineList<Listed, 10> groups;  ///< Most sessions have no more.
  GroupEntry* active = nullptr;
  Time forget_at{};  ///< Once it has ended.
};

/// Production has no planted bugs. Tests of the tests plant one at a time.
struct NoSessionFaults {
  static constexpr bool kForgetIndex = false;  ///< remove() leaves the group in its session.
  static constexpr bool kKeepActive = false;   ///< remove() leaves the active entry.
  static constexpr bool kForgetMark = false;   ///< end() leaves no mark.
};

/// SessionTable in shards, by session.
///
/// **What is where.** A shard has a table of its sessions and one of their groups; a group's id holds its shard and its
/// hash, so both a name and an id lead to it in one step. The tables own a reference to what is in them. A session has
/// the list of its groups, a group its place there; link() and unlink() are the only ones who change any of it.
///
/// **Locks.** One per shard; nobody holds two, and nothing of a user's runs under one but the visitor of visit(). No
/// hold but that of groups_of() is longer than it takes for kGroupsPerHold groups: a session that ends is marked first,
/// which makes its groups invisible, and then they are taken out in steps, by the one who marked it.
///
/// **Time.** Each session has a timer for the moment at which it would have been idle too long as far as was known when
/// it was armed; then it is looked at again. So activity costs no more than a store. Ended ones stand in a line, as all
/// are remembered equally long.
///
/// Parts: session_places.h (where things are), session_calls.h (operations), session_ends.h (ends, time).
///
/// **Memory.** What may fail to be allocated is allocated before anything is changed.
template <class Faults = NoSessionFaults>
class ShardedSessionTable final : public SessionTable {
 public:
  ShardedSessionTable(SessionOptions options, Function<void(Ended)> on_idle_end);
  ~ShardedSessionTable() override;

  Result<Ensured> ensure(const SessionId& session, const GroupName& name, MakeEntry make) override;
  Result<Ref<GroupEntry>> find(const SessionId& session, const GroupName& name) override;
  Result<Ref<GroupEntry>> find(const GroupId& id) override;
  Result<void> visit(const GroupId& id, void (*call)(void*, GroupEntry&), void* context) override;
  Result<Ref<GroupEntry>> remove(const GroupId& id) override;
  Result<Ended> end(const SessionId& session, std::string_view reason) override;
  Result<GroupId> active(const SessionId& session) override;
  Result<void> set_active(const GroupId& id) override;
  Result<std::vector<Ref<GroupEntry>>> groups_of(const SessionId& session) override;
  Result<void> touch(const SessionId& session) override;
  Counts counts() override;
  std::vector<SessionLockWaits> lock_waits() override;
  std::optional<Time> sweep() override;
  std::vector<Ref<GroupEntry>> clear() override;
  std::string check() override;

 private:
  static constexpr std::size_t kGroupsPerHold = 256;
  static constexpr std::size_t kSessionsPerHold = 64;

  enum class Call : std::uint8_t {
    kEnsure,
    kFind,
    kVisit,
    kRemove,
    kEnd,
    kActive,
    kGroupsOf,
    kTouch,
    kSweep,
    kLook,
  };
  static constexpr std::array<std::string_view, 10> kCallNames = {"ensure", "find",      "visit", "remove", "end",
                                                                  "active", "groups_of", "touch", "sweep",  "look"};

  struct alignas(64) Shard {
    Mutex mutex;
    SplitTable<GroupEntry> groups COHORT_GUARDED_BY(mutex);
    SplitTable<SessionState, 2> sessions COHORT_GUARDED_BY(mutex);
    TimerQueue timers COHORT_GUARDED_BY(mutex);                          ///< Of sessions that may be idle,
    IntrusiveList<SessionState> marks COHORT_GUARDED_BY(mutex);          ///< and those that have ended,
    IntrusiveList<SessionState> unknown_marks COHORT_GUARDED_BY(mutex);  ///< or ended before they began.
    std::size_t unknown COHORT_GUARDED_BY(mutex) = 0;                    ///< So many of the latter.
    std::array<std::uint64_t, kCallNames.size()> calls COHORT_GUARDED_BY(mutex){};
    std::array<std::unique_ptr<Histogram>, kCallNames.size()> waits COHORT_GUARDED_BY(mutex);  ///< Null: none waited.
    std::uint64_t generation COHORT_GUARDED_BY(mutex) = 0;
    std::size_t ended COHORT_GUARDED_BY(mutex) = 0;
    std::atomic<Time::rep> due{Time::max().time_since_epoch().count()};  ///< The first of both.
  };
  struct Place {
    Shard& shard;
    std::uint32_t number;
    std::uint32_t session_hash;
    std::uint64_t whole_hash;
  };
  // The lock of a shard, for one who is not inside visit().
  class Hold;

  [[nodiscard]] Place place_of(const SessionId& session);
  [[nodiscard]] std::uint32_t group_hash(std::uint64_t whole_hash, const GroupName& name) const;
  [[nodiscard]] static SessionState& session_of(const GroupEntry& entry) {
    return static_cast<SessionState&>(*entry.activity());
  }

  static SessionState* find_session(Shard& shard, std::uint32_t hash, const SessionId& id) COHORT_REQUIRES(shard.mutex);
  static GroupEntry* find_group(Shard& shard, std::uint32_t hash, const SessionId& session, const GroupName& name)
      COHORT_REQUIRES(shard.mutex);
  static GroupEntry* find_group(Shard& shard, const GroupId& id) COHORT_REQUIRES(shard.mutex);
  // Calls `f(entry)` with its shard locked; counts as activity.
  template <class F>
  auto at_group(const GroupId& id, Call call, F&& f) -> std::invoke_result_t<F&, GroupEntry&>;
  Result<SessionState*> living(Shard& shard, std::uint32_t hash, const SessionId& id) COHORT_REQUIRES(shard.mutex);

  [[nodiscard]] bool take_place();
  void link(Shard& shard, SessionState& session) COHORT_REQUIRES(shard.mutex);
  void unlink(Shard& shard, SessionState& session) COHORT_REQUIRES(shard.mutex);
  static void link(Shard& shard, GroupEntry& entry) COHORT_REQUIRES(shard.mutex);
  static void unlink(Shard& shard, GroupEntry& entry) COHORT_REQUIRES(shard.mutex);
  void mark(Shard& shard, SessionState& session, Time now) COHORT_REQUIRES(shard.mutex);
  static void note_due(Shard& shard) COHORT_REQUIRES(shard.mutex);
  [[nodiscard]] Time idle_at(const SessionState& session, Time now) const;

  static void prefetch_last(const Shard& shard, const SessionState& session) COHORT_REQUIRES(shard.mutex);
  bool take_out_some(Shard& shard, SessionState& session, Ended& ended) COHORT_REQUIRES(shard.mutex);
  void finish(Shard& shard, SessionState& session, Ended& ended, bool more) COHORT_EXCLUDES(shard.mutex);
  void sweep(Shard& shard) COHORT_EXCLUDES(shard.mutex);
  [[nodiscard]] static bool is_due(const Shard& shard, Time now);
  void tell_of(const Ended& ended);
  void close(GroupEntry& entry);
  void tell(const SessionEvent& event);
  [[nodiscard]] std::optional<Time> next_due() const;
  void run_sweeper();
  void wake_sweeper(Time due);

  void drop_oldest_unknown(Shard& shard) COHORT_REQUIRES(shard.mutex);

  Executor* const executor_;
  Clock& clock_;
  const KeyedHash hash_;
  const Duration ttl_;
  const Duration remember_ended_;
  const std::size_t max_sessions_;
  const std::size_t max_groups_;
  Function<void(const SessionEvent&)> listener_;
  Function<void(Ended)> on_idle_end_;
  const std::uint32_t shard_count_;
  const std::size_t max_unknown_;  // In a shard.
  std::unique_ptr<Shard[]> shards_;
  std::atomic<std::size_t> session_count_{0};  // Ended ones included.
  std::vector<Ref<GroupEntry>> kept_;          // Only planted bugs need it.

  Mutex sweeper_mutex_;
  CondVar sweeper_wake_;
  Time sweeper_sleeps_until_ COHORT_GUARDED_BY(sweeper_mutex_) = Time::min();
  std::atomic<Time::rep> sweeper_due_{Time::min().time_since_epoch().count()};  // A copy, to look at without the lock.
  std::atomic<bool> stopping_{false};                                           // Set under sweeper_mutex_.
  std::thread sweeper_;
};

inline thread_local const void* visited_table = nullptr;

template <class Faults>
class COHORT_ANNOTATE(scoped_lockable) ShardedSessionTable<Faults>::Hold {
 public:
  // The clock is read only by a caller that has to wait.
  Hold(const ShardedSessionTable& table, Shard& shard, Call call) COHORT_ACQUIRE(shard.mutex) : shard_(shard) {
    COHORT_ASSERT(visited_table != &table, "the callable of with_group must not call the registry");
    const auto kind = static_cast<std::size_t>(call);
    if (shard.mutex.try_lock()) {
      ++shard.calls[kind];
      return;
    }
    const Time began = system_clock().now();
    shard.mutex.lock();
    ++shard.calls[kind];
    if (!shard.waits[kind]) shard.waits[kind].reset(new (std::nothrow) Histogram);
    if (shard.waits[kind]) shard.waits[kind]->record(system_clock().now() - began);
  }
  ~Hold() COHORT_RELEASE() { shard_.mutex.unlock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Shard& shard_;
};

}  // namespace cohort::internal
