#pragma once

// Part of ShardedSessionTable: how sessions end, by a call, by time, or with the table.

#include "session/session_places.h"
#include "session/sharded_session_table.h"

namespace cohort::internal {

template <class Faults>
ShardedSessionTable<Faults>::ShardedSessionTable(SessionOptions options, Function<void(Ended)> on_idle_end)
    : executor_(options.executor),
      clock_(options.clock != nullptr      ? *options.clock
             : options.executor != nullptr ? options.executor->clock()
                                           : system_clock()),
      hash_(options.hash_secret ? KeyedHash(*options.hash_secret) : KeyedHash()),
      ttl_(std::max(options.ttl, Duration::zero())),
      remember_ended_(std::max(options.remember_ended, Duration::zero())),
      max_sessions_(std::max<std::size_t>(options.max_sessions, 1)),
      max_groups_(std::max<std::size_t>(options.max_groups_per_session, 1)),
      listener_(std::move(options.listener)),
      on_idle_end_(std::move(on_idle_end)),
      shard_count_(std::bit_ceil(std::clamp(options.shards, 1U, 4096U))),
      max_unknown_(std::max<std::size_t>(max_sessions_ / 16 / shard_count_, 1)),
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
    Hold hold(*this, shard, Call::kLook);
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

template <class Faults>
Result<Ended> ShardedSessionTable<Faults>::end(const SessionId& session, std::string_view reason) {
  const auto [shard, number, session_hash, whole_hash] = place_of(session);
  Time now = clock_.now();
  Ended ended{session.str(), std::string(reason), {}};
  Ref<SessionState> owner;
  bool more = false;
  for (;;) {
    Hold hold(*this, shard, Call::kEnd);
    if (SessionState* known = find_session(shard, session_hash, session)) {
      if (known->ended) return session_ended(session);
      prefetch_last(shard, *known);  // It is on its way while the rest is made ready.
      owner = Ref<SessionState>(*known);
    } else if (!owner) {
      owner = Ref<SessionState>::adopt(new SessionState(session, session_hash, now));
      owner->unknown = true;
      continue;
    } else {
      if (shard.unknown >= max_unknown_) drop_oldest_unknown(shard);
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

// What take_out_some() is about to take out, with its buckets.
template <class Faults>
void ShardedSessionTable<Faults>::prefetch_last(const Shard& shard, const SessionState& session) {
  const std::size_t count = std::min(session.groups.size(), kGroupsPerHold);
  for (const SessionState::Listed& each : std::span(session.groups.end() - count, count)) {
    each.entry->prefetch();
    shard.groups.prefetch(each.hash);
  }
}

// Some of the groups of one that has been marked, for whom `ended` has room; true when there are more.
template <class Faults>
bool ShardedSessionTable<Faults>::take_out_some(Shard& shard, SessionState& session, Ended& ended) {
  const std::size_t count = std::min(session.groups.size(), kGroupsPerHold);
  const std::span<const SessionState::Listed> last(session.groups.end() - count, count);
  // Step by step for all of them, so that the memory of all is on its way when that of the first is needed.
  prefetch_last(shard, session);
  for (const SessionState::Listed& each : last) SplitTable<GroupEntry>::prefetch_neighbours(*each.entry);
  for (const SessionState::Listed& each : last) {
    shard.groups.erase(*each.entry);
    ended.groups.push_back(Ref<GroupEntry>::adopt(each.entry));
  }
  session.groups.drop_last(count);
  if (!session.groups.empty()) return true;
  session.groups.clear();
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
    Hold hold(*this, shard, Call::kEnd);
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
    Hold hold(*this, shard, Call::kSweep);
    const Time now = clock_.now();
    for (IntrusiveList<SessionState>* marks : {&shard.marks, &shard.unknown_marks}) {
      while (forgotten.size() < kSessionsPerHold && !marks->empty() && marks->front()->forget_at <= now) {
        SessionState& session = *marks->front();
        unlink(shard, session);
        forgotten.push_back(Ref<SessionState>::adopt(&session));
      }
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

}  // namespace cohort::internal
