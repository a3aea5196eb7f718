#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/internal/intrusive_list.h"
#include "cohort/base/mutex.h"
#include "cohort/base/timer.h"
#include "cohort/session/internal/session_table.h"
#include "cohort/task/executor.h"
#include "session/split_table.h"

namespace cohort::internal {

/// A session: an Activity that its groups' leases share. All else is guarded by its shard's lock.
struct SessionState final : Activity, Timer, ListLinks<SessionState> {
  SessionState(const SessionId& session, std::uint32_t hash_of_id, Time now)
      : Activity(now), hash_(hash_of_id), id(session) {}

  [[nodiscard]] std::uint32_t hash() const { return hash_; }

  void add(GroupEntry& group) {
    group.place_ = static_cast<std::uint32_t>(groups.size());
    groups.push_back(&group);
  }
  void drop(GroupEntry& group) {
    groups[group.place_] = groups.back();
    groups[group.place_]->place_ = group.place_;
    groups.pop_back();
  }

  SessionState* next_ = nullptr;   ///< In its bucket.
  SessionState** link_ = nullptr;  ///< What points to it there.
  std::uint32_t hash_;
  bool ended = false;  ///< Then it is only a mark; its last groups may still be on their way out.
  const SessionId id;
  std::vector<GroupEntry*> groups;
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
  std::optional<Time> sweep() override;
  std::vector<Ref<GroupEntry>> clear() override;
  std::string check() override;

 private:
  static constexpr std::size_t kGroupsPerHold = 256;
  static constexpr std::size_t kSessionsPerHold = 64;

  struct alignas(64) Shard {
    Mutex mutex;
    SplitTable<GroupEntry> groups COHORT_GUARDED_BY(mutex);
    SplitTable<SessionState, 2> sessions COHORT_GUARDED_BY(mutex);
    TimerQueue timers COHORT_GUARDED_BY(mutex);                  ///< Of sessions that may be idle,
    IntrusiveList<SessionState> marks COHORT_GUARDED_BY(mutex);  ///< and those that have ended.
    std::uint64_t generation COHORT_GUARDED_BY(mutex) = 0;
    std::size_t ended COHORT_GUARDED_BY(mutex) = 0;
    std::atomic<Time::rep> due{Time::max().time_since_epoch().count()};  ///< The first of both.
  };
  struct Place {
    Shard& shard;
    std::uint32_t number;
    std::uint32_t session_hash;
  };
  // The lock of a shard, for one who is not inside visit().
  class Hold;

  [[nodiscard]] Place place_of(const SessionId& session);
  [[nodiscard]] static std::uint32_t group_hash(std::uint32_t session_hash, const GroupName& name);
  [[nodiscard]] static SessionState& session_of(const GroupEntry& entry) {
    return static_cast<SessionState&>(*entry.activity());
  }

  static SessionState* find_session(Shard& shard, std::uint32_t hash, const SessionId& id) COHORT_REQUIRES(shard.mutex);
  static GroupEntry* find_group(Shard& shard, std::uint32_t hash, const SessionId& session, const GroupName& name)
      COHORT_REQUIRES(shard.mutex);
  static GroupEntry* find_group(Shard& shard, const GroupId& id) COHORT_REQUIRES(shard.mutex);
  Result<SessionState*> living(Shard& shard, std::uint32_t hash, const SessionId& id) COHORT_REQUIRES(shard.mutex);

  [[nodiscard]] bool take_place();
  void link(Shard& shard, SessionState& session) COHORT_REQUIRES(shard.mutex);
  void unlink(Shard& shard, SessionState& session) COHORT_REQUIRES(shard.mutex);
  static void link(Shard& shard, GroupEntry& entry) COHORT_REQUIRES(shard.mutex);
  static void unlink(Shard& shard, GroupEntry& entry) COHORT_REQUIRES(shard.mutex);
  void mark(Shard& shard, SessionState& session, Time now) COHORT_REQUIRES(shard.mutex);
  static void note_due(Shard& shard) COHORT_REQUIRES(shard.mutex);
  [[nodiscard]] Time idle_at(const SessionState& session, Time now) const;

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

  Executor* const executor_;
  Clock& clock_;
  const Duration ttl_;
  const Duration remember_ended_;
  const std::size_t max_sessions_;
  const std::size_t max_groups_;
  Function<void(const SessionEvent&)> listener_;
  Function<void(Ended)> on_idle_end_;
  const std::uint32_t shard_count_;
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
  Hold(const ShardedSessionTable& table, Shard& shard) COHORT_ACQUIRE(shard.mutex) : shard_(shard) {
    COHORT_ASSERT(visited_table != &table, "the callable of with_group must not call the registry");
    shard_.mutex.lock();
  }
  ~Hold() COHORT_RELEASE() { shard_.mutex.unlock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Shard& shard_;
};

template <class Faults>
ShardedSessionTable<Faults>::ShardedSessionTable(SessionOptions options, Function<void(Ended)> on_idle_end)
    : executor_(options.executor),
      clock_(options.clock != nullptr      ? *options.clock
             : options.executor != nullptr ? options.executor->clock()
                                           : system_clock()),
      ttl_(std::max(options.ttl, Duration::zero())),
      remember_ended_(std::max(options.remember_ended, Duration::zero())),
      max_sessions_(std::max<std::size_t>(options.max_sessions, 1)),
      max_groups_(std::max<std::size_t>(options.max_groups_per_session, 1)),
      listener_(std::move(options.listener)),
      on_idle_end_(std::move(on_idle_end)),
      shard_count_(std::bit_ceil(std::clamp(options.shards, 1U, 4096U))),
      shards_(std::make_unique<Shard[]>(shard_count_)) {
  if (options.sweeps_itself) sweeper_ = std::thread([this] { run_sweeper(); });
}

template <class Faults>
ShardedSessionTable<Faults>::~ShardedSessionTable() {
  clear();
}

// Everything is taken out before anything is closed: that may run users' code, which may look for it.
template <class Faults>
std::vector<Ref<GroupEntry>> ShardedSessionTable<Faults>::clear() {
  {
    MutexLock lock(sweeper_mutex_);
    stopping_.store(true, std::memory_order_relaxed);
    sweeper_wake_.notify_all();
  }
  if (sweeper_.joinable()) sweeper_.join();
  std::vector<Ref<GroupEntry>> groups;
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    Hold hold(*this, shard);
    std::vector<GroupEntry*> entries;
    std::vector<SessionState*> sessions;
    shard.groups.for_each([&](GroupEntry& entry) { entries.push_back(&entry); });
    shard.sessions.for_each([&](SessionState& session) { sessions.push_back(&session); });
    for (GroupEntry* entry : entries) {
      shard.groups.erase(*entry);
      groups.push_back(Ref<GroupEntry>::adopt(entry));
    }
    for (SessionState* session : sessions) {
      session->groups.clear();
      session->active = nullptr;
      unlink(shard, *session);
      session->unref();
    }
  }
  for (const Ref<GroupEntry>& entry : groups) close(*entry);
  return groups;
}

// ---- where things are

template <class Faults>
auto ShardedSessionTable<Faults>::place_of(const SessionId& session) -> Place {
  const std::uint32_t hash = TaskLabel::hash(session.str());
  const std::uint32_t number = (hash >> 16) & (shard_count_ - 1);  // The tables in a shard use the lower bits.
  return {shards_[number], number, hash};
}

template <class Faults>
std::uint32_t ShardedSessionTable<Faults>::group_hash(std::uint32_t session_hash, const GroupName& name) {
  const std::uint64_t both =
      (std::uint64_t{session_hash} << 32 | TaskLabel::hash(name.str())) * 0x9E37'79B9'7F4A'7C15ULL;
  return static_cast<std::uint32_t>(both >> 32);
}

template <class Faults>
SessionState* ShardedSessionTable<Faults>::find_session(Shard& shard, std::uint32_t hash, const SessionId& id) {
  return shard.sessions.find(hash, [&](const SessionState& session) { return session.id == id; });
}

// The groups of an ended session are not there any more, even if they have not been taken out yet.
template <class Faults>
GroupEntry* ShardedSessionTable<Faults>::find_group(Shard& shard, std::uint32_t hash, const SessionId& session,
                                                    const GroupName& name) {
  return shard.groups.find(hash, [&](const GroupEntry& entry) {
    return entry.name() == name.str() && session_of(entry).id == session && !session_of(entry).ended;
  });
}

template <class Faults>
GroupEntry* ShardedSessionTable<Faults>::find_group(Shard& shard, const GroupId& id) {
  return shard.groups.find(id.hash,
                           [&](const GroupEntry& entry) { return entry.id() == id && !session_of(entry).ended; });
}

// ---- errors

inline Error session_ended(const SessionId& id) {
  return {ErrorCode::kEnded, "session '" + id.str() + "' has ended", {}};
}
inline Error too_many_sessions() {
  return {ErrorCode::kRejected, "there are as many sessions, ended ones included, as there may be (max_sessions)", {}};
}
inline Error no_such_session(const SessionId& id) {
  return {ErrorCode::kNotFound, "there is no session '" + id.str() + "'", {}};
}
inline Error no_such_group(const GroupId& id) {
  return {
      ErrorCode::kNotFound, "there is no group " + id.str() + " any more: it was removed, or its session ended", {}};
}

template <class Faults>
Result<SessionState*> ShardedSessionTable<Faults>::living(Shard& shard, std::uint32_t hash, const SessionId& id) {
  SessionState* session = find_session(shard, hash, id);
  if (session == nullptr) return no_such_session(id);
  if (session->ended) return session_ended(id);
  return session;
}

// ---- the only ones who change what is where

// For one more session, if there may be one.
template <class Faults>
bool ShardedSessionTable<Faults>::take_place() {
  if (session_count_.fetch_add(1, std::memory_order_relaxed) < max_sessions_) return true;
  session_count_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

// take_place() comes first.
template <class Faults>
void ShardedSessionTable<Faults>::link(Shard& shard, SessionState& session) {
  session.ref();
  shard.sessions.insert(session);
}

template <class Faults>
void ShardedSessionTable<Faults>::unlink(Shard& shard, SessionState& session) {
  shard.timers.disarm(session);
  if (session.ended) {
    shard.marks.erase(session);
    --shard.ended;
  }
  note_due(shard);
  shard.sessions.erase(session);
  session_count_.fetch_sub(1, std::memory_order_relaxed);
}

template <class Faults>
void ShardedSessionTable<Faults>::link(Shard& shard, GroupEntry& entry) {
  entry.ref();
  session_of(entry).add(entry);
  shard.groups.insert(entry);
}

template <class Faults>
void ShardedSessionTable<Faults>::unlink(Shard& shard, GroupEntry& entry) {
  SessionState& session = session_of(entry);
  shard.groups.erase(entry);
  if (!Faults::kForgetIndex) session.drop(entry);
  if (session.active == &entry && !Faults::kKeepActive) session.active = nullptr;
}

template <class Faults>
void ShardedSessionTable<Faults>::mark(Shard& shard, SessionState& session, Time now) {
  session.ended = true;
  session.active = nullptr;
  session.forget_at = saturating_add(now, remember_ended_);
  shard.marks.push_back(session);
  ++shard.ended;
  note_due(shard);
}

template <class Faults>
void ShardedSessionTable<Faults>::note_due(Shard& shard) {
  Time next = shard.timers.next().value_or(Time::max());
  if (const SessionState* mark = shard.marks.front()) next = std::min(next, mark->forget_at);
  const Time::rep due = next.time_since_epoch().count();
  if (due != shard.due.load(std::memory_order_relaxed)) shard.due.store(due, std::memory_order_seq_cst);
}

template <class Faults>
Time ShardedSessionTable<Faults>::idle_at(const SessionState& session, Time now) const {
  return ttl_ == Duration::zero() ? Time::max() : saturating_add(session.last(now), ttl_);
}

// ---- operations

template <class Faults>
auto ShardedSessionTable<Faults>::ensure(const SessionId& session, const GroupName& name, MakeEntry make)
    -> Result<Ensured> {
  const auto [shard, number, session_hash] = place_of(session);
  const std::uint32_t hash = group_hash(session_hash, name);
  const Time now = clock_.now();
  Ref<SessionState> owner;
  {
    Hold hold(*this, shard);
    if (GroupEntry* entry = find_group(shard, hash, session, name)) {
      session_of(*entry).touch(now);
      return Ensured{entry->id(), Ref<GroupEntry>(*entry), false};
    }
    if (SessionState* known = find_session(shard, session_hash, session)) {
      if (known->ended) return session_ended(session);
      owner = Ref<SessionState>(*known);
    }
  }

  if (!owner) owner = Ref<SessionState>::adopt(new SessionState(session, session_hash, now));
  Ref<GroupEntry> fresh;
  Time due = Time::max();
  for (;;) {
    fresh = make(executor_key(session, name), Ref<Activity>(*owner), name.str().size());
    const Time later = clock_.now();  // That may have taken its time.
    Hold hold(*this, shard);
    if (GroupEntry* entry = find_group(shard, hash, session, name)) {
      session_of(*entry).touch(later);
      return Ensured{entry->id(), Ref<GroupEntry>(*entry), false};
    }
    SessionState* known = find_session(shard, session_hash, session);
    if (known != nullptr && known->ended) return session_ended(session);
    if (known != nullptr ? known != owner.get() : owner->ended) {
      // It began meanwhile, or anew: the entry belongs to the wrong one.
      owner = known != nullptr ? Ref<SessionState>(*known)
                               : Ref<SessionState>::adopt(new SessionState(session, session_hash, now));
      continue;
    }
    if (owner->groups.size() >= max_groups_) {
      return Error{ErrorCode::kRejected,
                   "session '" + session.str() + "' has " + std::to_string(max_groups_) + " groups, which is the limit",
                   {}};
    }
    if (owner->groups.size() == owner->groups.capacity()) {
      owner->groups.reserve(std::max<std::size_t>(4, 2 * owner->groups.size()));
    }
    owner->touch(later);
    if (known == nullptr) {
      if (!take_place()) return too_many_sessions();
      due = idle_at(*owner, later);
      try {
        if (due != Time::max()) shard.timers.arm(*owner, due);
      } catch (...) {
        session_count_.fetch_sub(1, std::memory_order_relaxed);
        throw;
      }
      link(shard, *owner);
      note_due(shard);
    }
    fresh->id_ = {number, hash, ++shard.generation};
    link(shard, *fresh);
    break;
  }
  wake_sweeper(due);
  const GroupId id = fresh->id();
  tell({.kind = SessionEvent::Kind::kGroupCreated, .session = session.str(), .group = name.str(), .id = id});
  return Ensured{id, std::move(fresh), true};
}

template <class Faults>
Result<Ref<GroupEntry>> ShardedSessionTable<Faults>::find(const SessionId& session, const GroupName& name) {
  const auto [shard, number, session_hash] = place_of(session);
  const Time now = clock_.now();
  Hold hold(*this, shard);
  if (GroupEntry* entry = find_group(shard, group_hash(session_hash, name), session, name)) {
    session_of(*entry).touch(now);
    return Ref<GroupEntry>(*entry);
  }
  if (auto known = living(shard, session_hash, session); !known) return known.error();
  return Error{ErrorCode::kNotFound, "session '" + session.str() + "' has no group '" + name.str() + "'", {}};
}

template <class Faults>
Result<Ref<GroupEntry>> ShardedSessionTable<Faults>::find(const GroupId& id) {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  const Time now = clock_.now();
  Hold hold(*this, shard);
  GroupEntry* entry = find_group(shard, id);
  if (entry == nullptr) return no_such_group(id);
  session_of(*entry).touch(now);
  return Ref<GroupEntry>(*entry);
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::visit(const GroupId& id, void (*call)(void*, GroupEntry&), void* context) {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  const Time now = clock_.now();
  Hold hold(*this, shard);
  GroupEntry* entry = find_group(shard, id);
  if (entry == nullptr) return no_such_group(id);
  session_of(*entry).touch(now);
  struct Inside {
    explicit Inside(const void* table) : outer(std::exchange(visited_table, table)) {}
    ~Inside() { visited_table = outer; }
    const void* outer;
  } inside(this);
  call(context, *entry);
  return {};
}

template <class Faults>
Result<Ref<GroupEntry>> ShardedSessionTable<Faults>::remove(const GroupId& id) {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  Ref<GroupEntry> removed;
  Ref<SessionState> forgotten;
  std::string session;
  {
    Hold hold(*this, shard);
    GroupEntry* entry = find_group(shard, id);
    if (entry == nullptr) return no_such_group(id);
    SessionState& owner = session_of(*entry);
    session = owner.id.str();
    unlink(shard, *entry);
    removed = Ref<GroupEntry>::adopt(entry);
    if (owner.groups.empty()) {
      unlink(shard, owner);
      forgotten = Ref<SessionState>::adopt(&owner);
    }
  }
  if constexpr (Faults::kForgetIndex || Faults::kKeepActive) kept_.push_back(removed);
  close(*removed);
  tell({.kind = SessionEvent::Kind::kGroupRemoved, .session = session, .group = removed->name(), .id = id});
  return removed;
}

template <class Faults>
Result<Ended> ShardedSessionTable<Faults>::end(const SessionId& session, std::string_view reason) {
  const auto [shard, number, session_hash] = place_of(session);
  Time now = clock_.now();
  Ended ended{session.str(), std::string(reason), {}};
  Ref<SessionState> owner;
  bool more = false;
  for (;;) {
    Hold hold(*this, shard);
    if (SessionState* known = find_session(shard, session_hash, session)) {
      if (known->ended) return session_ended(session);
      __builtin_prefetch(known->groups.data());
      owner = Ref<SessionState>(*known);
    } else if (!owner) {
      owner = Ref<SessionState>::adopt(new SessionState(session, session_hash, now));
      continue;
    } else if (!take_place()) {
      return too_many_sessions();
    } else {
      link(shard, *owner);
    }
    ended.groups.reserve(owner->groups.size());
    now = clock_.now();
    mark(shard, *owner, now);
    more = take_out_some(shard, *owner, ended);
    break;
  }
  wake_sweeper(saturating_add(now, remember_ended_));
  finish(shard, *owner, ended, more);
  tell_of(ended);
  return ended;
}

// Some of the groups of one that has been marked, for whom `ended` has room; true when there are more.
template <class Faults>
bool ShardedSessionTable<Faults>::take_out_some(Shard& shard, SessionState& session, Ended& ended) {
  const std::size_t count = std::min(session.groups.size(), kGroupsPerHold);
  const std::span<GroupEntry* const> last = std::span(session.groups).last(count);
  // Step by step for all of them, so that the memory of all is on its way when that of the first is needed.
  for (const GroupEntry* entry : last) entry->prefetch();
  for (const GroupEntry* entry : last) SplitTable<GroupEntry>::prefetch_neighbours(*entry);
  for (GroupEntry* entry : last) {
    shard.groups.erase(*entry);
    ended.groups.push_back(Ref<GroupEntry>::adopt(entry));
  }
  session.groups.resize(session.groups.size() - count);
  if (!session.groups.empty()) return true;
  std::vector<GroupEntry*>().swap(session.groups);
  if (Faults::kForgetMark) {
    unlink(shard, session);
    session.unref();
  }
  return false;
}

// The rest, for the one who has marked it, and holds a reference.
template <class Faults>
void ShardedSessionTable<Faults>::finish(Shard& shard, SessionState& session, Ended& ended, bool more) {
  while (more) {
    Hold hold(*this, shard);
    more = take_out_some(shard, session, ended);
  }
  std::ranges::sort(ended.groups, {}, [](const Ref<GroupEntry>& entry) { return entry->id().generation; });
  for (const Ref<GroupEntry>& entry : ended.groups) close(*entry);
}

template <class Faults>
void ShardedSessionTable<Faults>::tell_of(const Ended& ended) {
  tell({.kind = SessionEvent::Kind::kSessionEnded,
        .session = ended.session,
        .group = {},
        .id = {},
        .reason = ended.reason,
        .groups = ended.groups.size()});
}

template <class Faults>
Result<GroupId> ShardedSessionTable<Faults>::active(const SessionId& session) {
  const auto [shard, number, session_hash] = place_of(session);
  Hold hold(*this, shard);
  auto known = living(shard, session_hash, session);
  if (!known) return known.error();
  if ((*known)->active == nullptr) {
    return Error{ErrorCode::kNotFound, "session '" + session.str() + "' has no active group", {}};
  }
  return (*known)->active->id();
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::set_active(const GroupId& id) {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  const Time now = clock_.now();
  Hold hold(*this, shard);
  GroupEntry* entry = find_group(shard, id);
  if (entry == nullptr) return no_such_group(id);
  session_of(*entry).active = entry;
  session_of(*entry).touch(now);
  return {};
}

template <class Faults>
Result<std::vector<Ref<GroupEntry>>> ShardedSessionTable<Faults>::groups_of(const SessionId& session) {
  const auto [shard, number, session_hash] = place_of(session);
  std::vector<Ref<GroupEntry>> groups;
  {
    Hold hold(*this, shard);
    auto known = living(shard, session_hash, session);
    if (!known) return known.error();
    groups.reserve((*known)->groups.size());
    for (GroupEntry* entry : (*known)->groups) groups.emplace_back(*entry);
  }
  std::ranges::sort(groups, {}, [](const Ref<GroupEntry>& entry) { return entry->id().generation; });
  return groups;
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::touch(const SessionId& session) {
  const auto [shard, number, session_hash] = place_of(session);
  const Time now = clock_.now();
  Hold hold(*this, shard);
  auto known = living(shard, session_hash, session);
  if (!known) return known.error();
  (*known)->touch(now);
  return {};
}

template <class Faults>
auto ShardedSessionTable<Faults>::counts() -> Counts {
  Counts counts;
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    Hold hold(*this, shard);
    counts.groups += shard.groups.size();
    counts.ended += shard.ended;
    counts.sessions += shard.sessions.size() - shard.ended;
  }
  return counts;
}

// ---- what happens outside the locks

template <class Faults>
void ShardedSessionTable<Faults>::close(GroupEntry& entry) {
  if (entry.close() && executor_ != nullptr) ExecutorAccess::close_group(*executor_, entry);
}

template <class Faults>
void ShardedSessionTable<Faults>::tell(const SessionEvent& event) {
  if (!listener_) return;
  try {
    listener_(event);
  } catch (...) {
    // The documented meaning of a listener that throws.
  }
}

// ---- time

template <class Faults>
std::optional<Time> ShardedSessionTable<Faults>::sweep() {
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    while (!stopping_.load(std::memory_order_relaxed) && is_due(shards_[i], clock_.now())) sweep(shards_[i]);
  }
  return next_due();
}

template <class Faults>
bool ShardedSessionTable<Faults>::is_due(const Shard& shard, Time now) {
  return shard.due.load(std::memory_order_seq_cst) <= now.time_since_epoch().count();
}

// One step: some marks are forgotten, some sessions end. All of them have ended in every respect before anybody is
// told.
template <class Faults>
void ShardedSessionTable<Faults>::sweep(Shard& shard) {
  struct Idle {
    Ref<SessionState> session;
    Ended ended;
    bool more = false;
  };
  std::vector<Idle> idle;
  std::vector<Ref<SessionState>> forgotten;
  idle.reserve(kSessionsPerHold);
  forgotten.reserve(kSessionsPerHold);
  {
    Hold hold(*this, shard);
    const Time now = clock_.now();
    while (forgotten.size() < kSessionsPerHold && !shard.marks.empty() && shard.marks.front()->forget_at <= now) {
      SessionState& session = *shard.marks.front();
      unlink(shard, session);
      forgotten.push_back(Ref<SessionState>::adopt(&session));
    }
    std::size_t taken = 0;
    for (std::size_t i = 0; i < kSessionsPerHold && taken < kGroupsPerHold; ++i) {
      Timer* due = shard.timers.pop_due(now);
      if (due == nullptr) break;
      SessionState& session = static_cast<SessionState&>(*due);
      if (session.ended) continue;
      if (const Time idle_from = idle_at(session, now); idle_from > now) {
        shard.timers.arm(session, idle_from);
        continue;
      }
      Idle each{Ref<SessionState>(session), {}, false};
      try {
        each.ended = {session.id.str(), "idle", {}};
        each.ended.groups.reserve(session.groups.size());
      } catch (...) {
        shard.timers.arm(session, now);  // There is room: it has just been there.
        note_due(shard);
        throw;
      }
      taken += session.groups.size();
      mark(shard, session, now);
      each.more = take_out_some(shard, session, each.ended);
      idle.push_back(std::move(each));
    }
    note_due(shard);
  }
  for (Idle& each : idle) finish(shard, *each.session, each.ended, each.more);
  for (Idle& each : idle) {
    tell_of(each.ended);
    try {
      on_idle_end_(std::move(each.ended));
    } catch (...) {
      // The documented meaning of a callback that throws.
    }
  }
}

template <class Faults>
std::optional<Time> ShardedSessionTable<Faults>::next_due() const {
  Time::rep next = Time::max().time_since_epoch().count();
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    next = std::min(next, shards_[i].due.load(std::memory_order_seq_cst));
  }
  if (next == Time::max().time_since_epoch().count()) return std::nullopt;
  return Time(Duration(next));
}

// Whoever arms a timer stores the shard's `due` and then looks at sweeper_due_; the sweeper stores that and then looks
// at every `due`. All of it is sequentially consistent, so one of them sees the other.
template <class Faults>
void ShardedSessionTable<Faults>::wake_sweeper(Time due) {
  if (due.time_since_epoch().count() >= sweeper_due_.load(std::memory_order_seq_cst)) return;
  MutexLock lock(sweeper_mutex_);
  sweeper_due_.store(Time::min().time_since_epoch().count(), std::memory_order_seq_cst);
  sweeper_wake_.notify_all();
}

template <class Faults>
void ShardedSessionTable<Faults>::run_sweeper() {
  const auto count_of = [](Time time) { return time.time_since_epoch().count(); };
  MutexLock lock(sweeper_mutex_);
  while (!stopping_) {
    lock.unlock();
    bool failed = false;
    try {
      static_cast<void>(sweep());
    } catch (const std::bad_alloc&) {
      failed = true;  // There may be memory again in a while.
    }
    lock.lock();
    if (failed && !stopping_) {
      sweeper_wake_.wait_until(sweeper_mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
      continue;
    }
    const Time until = next_due().value_or(Time::max());
    sweeper_due_.store(count_of(until), std::memory_order_seq_cst);
    while (!stopping_ && sweeper_due_.load(std::memory_order_relaxed) == count_of(until) &&
           next_due().value_or(Time::max()) >= until) {
      const Time now = clock_.now();
      if (now >= until) break;
      if (until == Time::max()) {
        sweeper_wake_.wait(sweeper_mutex_);
      } else {
        sweeper_wake_.wait_until(sweeper_mutex_, std::chrono::steady_clock::now() + (until - now));
      }
    }
    sweeper_due_.store(count_of(Time::min()), std::memory_order_seq_cst);
  }
}

// ---- for tests

template <class Faults>
std::string ShardedSessionTable<Faults>::check() {
  std::size_t sessions = 0;
  for (std::uint32_t number = 0; number < shard_count_; ++number) {
    Shard& shard = shards_[number];
    Hold hold(*this, shard);
    std::string broken;
    std::size_t listed = 0;
    std::size_t ended = 0;
    sessions += shard.sessions.size();
    std::vector<const SessionState*> all;
    shard.sessions.for_each([&](const SessionState& session) { all.push_back(&session); });
    for (const SessionState* each_session : all) {
      const SessionState& session = *each_session;
      const std::string name = "session '" + session.id.str() + "' ";
      ended += session.ended ? 1 : 0;
      listed += session.groups.size();
      if (!session.ended && session.groups.empty()) broken = name + "lives without a group";
      if (session.ended && session.active != nullptr) broken = name + "has ended with an active group";
      if (!session.ended && idle_at(session, Time()) != Time::max() && !session.armed())
        broken = name + "is never looked at";
      bool has_active = session.active == nullptr;
      for (std::size_t i = 0; i < session.groups.size(); ++i) {
        const GroupEntry& entry = *session.groups[i];
        has_active = has_active || session.active == &entry;
        if (&session_of(entry) != &session || entry.place_ != i) broken = name + "lists a group that is not its own";
        if (entry.id().shard != number) broken = name + "lists a group of another shard";
        const GroupEntry* found =
            shard.groups.find(entry.hash(), [&](const GroupEntry& each) { return &each == &entry; });
        if (found == nullptr) broken = name + "lists a group that is not in the table";
      }
      if (!has_active) broken = name + "has an active group that is not listed";
    }
    if (!broken.empty()) return broken;
    // Those of a session whose mark has expired while they were taken out are listed nowhere; there are none at rest.
    if (listed != shard.groups.size())
      return "the sessions list " + std::to_string(listed) + " groups, the table has " +
             std::to_string(shard.groups.size());
    if (ended != shard.ended) return "the marks are miscounted";
  }
  if (sessions != session_count_.load()) return "the sessions are miscounted";
  return "";
}

}  // namespace cohort::internal
