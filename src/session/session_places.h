#pragma once

// Part of ShardedSessionTable: where sessions and groups are, and the only ones who change that.

#include "session/sharded_session_table.h"

namespace cohort::internal {

// ---- where things are

template <class Faults>
auto ShardedSessionTable<Faults>::place_of(const SessionId& session) -> Place {
  const std::uint64_t hash = hash_(session.str());
  const auto number = static_cast<std::uint32_t>(hash >> 40U) & (shard_count_ - 1);  // Tables in a shard use others.
  return {shards_[number], number, static_cast<std::uint32_t>(hash), hash};
}

template <class Faults>
std::uint32_t ShardedSessionTable<Faults>::group_hash(std::uint64_t whole_hash, const GroupName& name) const {
  // Not symmetric: a group that is called like its session is to have a place of its own too.
  const std::uint64_t both = hash_(name.str()) + std::rotl(whole_hash, 23) * 0x9E37'79B9'7F4A'7C15ULL;
  return static_cast<std::uint32_t>(both ^ both >> 32U);
}

template <class Faults>
SessionState* ShardedSessionTable<Faults>::find_session(Shard& shard, std::uint32_t hash, const SessionId& id) {
  return shard.sessions.find(hash, [&](const SessionState& session) {
    session.prefetch();
    return session.id == id;
  });
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

// take_place() comes first, unless it was never there.
template <class Faults>
void ShardedSessionTable<Faults>::link(Shard& shard, SessionState& session) {
  session.ref();
  shard.sessions.insert(session);
}

template <class Faults>
void ShardedSessionTable<Faults>::unlink(Shard& shard, SessionState& session) {
  shard.timers.disarm(session);
  if (session.ended) {
    (session.unknown ? shard.unknown_marks : shard.marks).erase(session);
    shard.unknown -= session.unknown ? 1 : 0;
    --shard.ended;
  }
  note_due(shard);
  shard.sessions.erase(session);
  if (!session.unknown) session_count_.fetch_sub(1, std::memory_order_relaxed);
}

// Ending sessions that were never there can make the registry forget such marks, and nothing else.
template <class Faults>
void ShardedSessionTable<Faults>::drop_oldest_unknown(Shard& shard) {
  SessionState& oldest = *shard.unknown_marks.front();
  unlink(shard, oldest);
  oldest.unref();
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
  (session.unknown ? shard.unknown_marks : shard.marks).push_back(session);
  shard.unknown += session.unknown ? 1 : 0;
  ++shard.ended;
  note_due(shard);
}

template <class Faults>
void ShardedSessionTable<Faults>::note_due(Shard& shard) {
  Time next = shard.timers.next().value_or(Time::max());
  if (const SessionState* mark = shard.marks.front()) next = std::min(next, mark->forget_at);
  if (const SessionState* mark = shard.unknown_marks.front()) next = std::min(next, mark->forget_at);
  const Time::rep due = next.time_since_epoch().count();
  if (due != shard.due.load(std::memory_order_relaxed)) shard.due.store(due, std::memory_order_seq_cst);
}

template <class Faults>
Time ShardedSessionTable<Faults>::idle_at(const SessionState& session, Time now) const {
  return ttl_ == Duration::zero() ? Time::max() : saturating_add(session.last(now), ttl_);
}

}  // namespace cohort::internal
