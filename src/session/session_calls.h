#pragma once

// Part of ShardedSessionTable: what callers ask for.

#include "session/session_places.h"
#include "session/sharded_session_table.h"

namespace cohort::internal {

template <class Faults>
auto ShardedSessionTable<Faults>::ensure(const SessionId& session, const GroupName& name, MakeEntry make)
    -> Result<Ensured> {
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  const std::uint32_t hash = group_hash(whole_hash, name);
  const Time now = clock_.now();
  Ref<SessionState> owner;
  {
    Hold hold(*this, shard, Call::kEnsure);
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
    Hold hold(*this, shard, Call::kEnsure);
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
    if (owner->groups.is_full()) owner->groups.grow();
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
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  const Time now = clock_.now();
  Hold hold(*this, shard, Call::kFind);
  if (GroupEntry* entry = find_group(shard, group_hash(whole_hash, name), session, name)) {
    session_of(*entry).touch(now);
    return Ref<GroupEntry>(*entry);
  }
  if (auto known = living(shard, session_hash, session); !known) return known.error();
  return Error{ErrorCode::kNotFound, "session '" + session.str() + "' has no group '" + name.str() + "'", {}};
}

template <class Faults>
template <class F>
auto ShardedSessionTable<Faults>::at_group(const GroupId& id, Call call, F&& f)
    -> std::invoke_result_t<F&, GroupEntry&> {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  const Time now = clock_.now();
  Hold hold(*this, shard, call);
  GroupEntry* entry = find_group(shard, id);
  if (entry == nullptr) return no_such_group(id);
  session_of(*entry).touch(now);
  return f(*entry);
}

template <class Faults>
Result<Ref<GroupEntry>> ShardedSessionTable<Faults>::find(const GroupId& id) {
  return at_group(id, Call::kFind, [](GroupEntry& entry) -> Result<Ref<GroupEntry>> { return Ref<GroupEntry>(entry); });
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::visit(const GroupId& id, void (*call)(void*, GroupEntry&), void* context) {
  struct Inside {
    explicit Inside(const void* table) : outer(std::exchange(visited_table, table)) {}
    ~Inside() { visited_table = outer; }
    const void* outer;
  };
  return at_group(id, Call::kVisit, [&](GroupEntry& entry) -> Result<void> {
    const Inside inside(this);
    call(context, entry);
    return {};
  });
}

template <class Faults>
Result<Ref<GroupEntry>> ShardedSessionTable<Faults>::remove(const GroupId& id) {
  if (id.shard >= shard_count_) return no_such_group(id);
  Shard& shard = shards_[id.shard];
  Ref<GroupEntry> removed;
  Ref<SessionState> forgotten;
  std::string session;
  {
    Hold hold(*this, shard, Call::kRemove);
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
Result<GroupId> ShardedSessionTable<Faults>::active(const SessionId& session) {
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  Hold hold(*this, shard, Call::kActive);
  auto known = living(shard, session_hash, session);
  if (!known) return known.error();
  if ((*known)->active == nullptr) {
    return Error{ErrorCode::kNotFound, "session '" + session.str() + "' has no active group", {}};
  }
  return (*known)->active->id();
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::set_active(const GroupId& id) {
  return at_group(id, Call::kActive, [](GroupEntry& entry) -> Result<void> {
    session_of(entry).active = &entry;
    return {};
  });
}

template <class Faults>
Result<std::vector<Ref<GroupEntry>>> ShardedSessionTable<Faults>::groups_of(const SessionId& session) {
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  std::vector<Ref<GroupEntry>> groups;
  {
    Hold hold(*this, shard, Call::kGroupsOf);
    auto known = living(shard, session_hash, session);
    if (!known) return known.error();
    groups.reserve((*known)->groups.size());
    for (const SessionState::Listed& each : (*known)->groups) groups.emplace_back(*each.entry);
  }
  std::ranges::sort(groups, {}, [](const Ref<GroupEntry>& entry) { return entry->id().generation; });
  return groups;
}

template <class Faults>
Result<void> ShardedSessionTable<Faults>::touch(const SessionId& session) {
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  const Time now = clock_.now();
  Hold hold(*this, shard, Call::kTouch);
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
    Hold hold(*this, shard, Call::kLook);
    counts.groups += shard.groups.size();
    counts.ended += shard.ended;
    counts.sessions += shard.sessions.size() - shard.ended;
  }
  return counts;
}

template <class Faults>
std::vector<SessionLockWaits> ShardedSessionTable<Faults>::lock_waits() {
  std::vector<SessionLockWaits> all(kCallNames.size());
  std::vector<Histogram> waits(kCallNames.size());
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    Hold hold(*this, shard, Call::kLook);
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      all[kind].calls += shard.calls[kind];
      if (shard.waits[kind]) waits[kind].merge(*shard.waits[kind]);
    }
  }
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    SessionLockWaits& each = all[kind];
    each.call = kCallNames[kind];
    each.waited = waits[kind].count();
    each.longest = waits[kind].max();
    // Those that did not wait come first.
    const double waited = static_cast<double>(each.waited);
    const double rank = 0.99 * static_cast<double>(each.calls) - static_cast<double>(each.calls - each.waited);
    if (rank > 0) each.p99 = waits[kind].quantile(rank / waited);
  }
  return all;
}

// ---- for tests

template <class Faults>
std::string ShardedSessionTable<Faults>::check() {
  std::size_t sessions = 0;
  for (std::uint32_t number = 0; number < shard_count_; ++number) {
    Shard& shard = shards_[number];
    Hold hold(*this, shard, Call::kLook);
    std::string broken;
    std::size_t listed = 0;
    std::size_t ended = 0;
    sessions += shard.sessions.size() - shard.unknown;
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
        const GroupEntry& entry = *session.groups[i].entry;
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
