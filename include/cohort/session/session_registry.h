#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cohort/session/internal/session_table.h"
#include "cohort/session/session_ids.h"
#include "cohort/session/session_options.h"
#include "cohort/task/group_token.h"

namespace cohort {

/// A group of a session, as returned by SessionRegistry::ensure_group and find_group.
struct SessionGroup {
  GroupId id;
  GroupToken token;      ///< Submit the group's work with this token.
  bool created = false;  ///< True if this call created the group.
};

/// A group that was removed from the registry, with its payload.
template <class Payload>
struct RemovedGroup {
  GroupId id;
  std::string name;
  Payload payload;
};

/// A session that has ended, with the groups that it had.
template <class Payload>
struct EndedSession {
  std::string session;
  std::string reason;
  std::vector<RemovedGroup<Payload>> groups;  ///< In the order of their creation.
};

/// Knows which session has which groups, holds a payload for each group, and owns the lifetimes of the groups.
///
///     SessionRegistry<Transcript> sessions({.executor = &executor});
///     auto group = sessions.ensure_group(session, utterance);
///     executor.submit(group->token, "recognise", recognise);
///     sessions.with_group(group->id, [&](Transcript& transcript) { transcript.append(text); });
///     auto ended = sessions.end_session(session, "hung up");   // Returns the transcripts and cancels the work.
///
/// A session begins with its first group. It is forgotten with the removal of its last group, or it is ended.
///
/// When a session ends, its groups are removed and their tokens are closed. Its waiting tasks settle as cancelled. Its
/// running tasks are asked to stop. For SessionOptions::remember_ended, late calls that name the session get kEnded.
///
/// A call that names a session or a group locks only the shard of that session, and only briefly. The end of a session
/// never walks the groups of other sessions.
///
/// Errors: kEnded for an ended session, kNotFound for a session or group that does not exist, kRejected at a limit.
///
/// Thread-safety: thread-safe.
/// Example: examples/06_sessions.cc
template <class Payload>
class SessionRegistry {
 public:
  /// `on_idle_end` gets the groups and payloads of each session that ended because it was idle. The registry calls it
  /// with no lock held and ignores its exceptions.
  explicit SessionRegistry(SessionOptions options = {},
                           std::function<void(EndedSession<Payload>)> on_idle_end = nullptr)
      : table_(internal::SessionTable::make(std::move(options),
                                            [on_idle_end = std::move(on_idle_end)](internal::Ended ended) {
                                              EndedSession<Payload> result = released(std::move(ended));
                                              if (on_idle_end) on_idle_end(std::move(result));
                                            })) {}
  /// Closes all tokens, which cancels their work, and destroys all payloads. Sends no events. It does not wait for
  /// running bodies: if they use the registry, shut the executor down first.
  ~SessionRegistry() {
    for (const auto& entry : table_->clear()) static_cast<Entry&>(*entry).payload.reset();
  }
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  /// Returns the session's group `name`. Creates it with the payload `make()` if it does not exist. `make` runs with no
  /// lock held. If two threads create the group at the same moment, the registry drops one of the payloads.
  template <class Make>
  Result<SessionGroup> ensure_group(const SessionId& session, const GroupName& name, Make&& make) {
    auto ensured = table_->ensure(
        session, name, [&make](std::string_view key, internal::Ref<internal::Activity> owner, std::size_t name_size) {
          auto entry = internal::make_lease<Entry>(key, std::move(owner), name_size, make);
          return internal::Ref<internal::GroupEntry>::adopt(entry.release());
        });
    if (!ensured) return ensured.error();
    return SessionGroup{ensured->id, token_of(std::move(ensured->entry)), ensured->created};
  }
  /// Returns the session's group `name`. Creates it with a default-constructed payload if it does not exist.
  Result<SessionGroup> ensure_group(const SessionId& session, const GroupName& name)
    requires std::is_default_constructible_v<Payload>
  {
    return ensure_group(session, name, [] { return Payload(); });
  }

  /// Returns the session's group `name`. Never creates one.
  [[nodiscard]] Result<SessionGroup> find_group(const SessionId& session, const GroupName& name) {
    return found(table_->find(session, name));
  }
  [[nodiscard]] Result<SessionGroup> find_group(const GroupId& id) { return found(table_->find(id)); }

  /// Calls `f(payload)` with the group's shard locked and returns its result. Use it to read or change the payload. `f`
  /// must be brief and must not call the registry. An exception of `f` reaches the caller.
  template <class F>
  auto with_group(const GroupId& id, F&& f) -> Result<std::invoke_result_t<F&, Payload&>> {
    using Returned = std::invoke_result_t<F&, Payload&>;
    static_assert(!std::is_reference_v<Returned>, "nothing of the payload may leave the lock by reference");
    if constexpr (std::is_void_v<Returned>) {
      const auto call = [&f](internal::GroupEntry& entry) { f(*static_cast<Entry&>(entry).payload); };
      return visit(id, call);
    } else {
      std::optional<Returned> returned;
      const auto call = [&](internal::GroupEntry& entry) { returned.emplace(f(*static_cast<Entry&>(entry).payload)); };
      if (auto visited = visit(id, call); !visited) return visited.error();
      return std::move(*returned);
    }
  }

  /// Removes the group and closes its token. A session that has no groups left is forgotten; it does not count as
  /// ended.
  Result<RemovedGroup<Payload>> remove_group(const GroupId& id) {
    auto removed = table_->remove(id);
    if (!removed) return removed.error();
    return released(**removed);
  }

  /// The group that the last set_active_group() of this session named.
  [[nodiscard]] Result<GroupId> active_group(const SessionId& session) { return table_->active(session); }
  /// Makes the group the active group of its session.
  Result<void> set_active_group(const GroupId& id) { return table_->set_active(id); }

  struct Group {
    GroupId id;
    std::string name;
  };
  /// The groups of the session, in the order of their creation.
  [[nodiscard]] Result<std::vector<Group>> groups_of(const SessionId& session) {
    auto entries = table_->groups_of(session);
    if (!entries) return entries.error();
    std::vector<Group> groups;
    groups.reserve(entries->size());
    for (const auto& entry : *entries) groups.push_back({entry->id(), std::string(entry->name())});
    return groups;
  }

  /// Ends the session and returns its groups with their payloads. Costs O(groups of this session). An unknown session
  /// is marked as ended too, so that a late call cannot create its first group.
  Result<EndedSession<Payload>> end_session(const SessionId& session, std::string_view reason) {
    auto ended = table_->end(session, reason);
    if (!ended) return ended.error();
    return released(std::move(*ended));
  }

  /// Marks the session as active now, see SessionOptions::ttl.
  Result<void> touch(const SessionId& session) { return table_->touch(session); }

  using Counts = internal::SessionTable::Counts;
  /// The numbers of sessions with groups, of their groups, and of remembered ended sessions.
  [[nodiscard]] Counts counts() { return table_->counts(); }

  /// How long calls have waited for locks, for each kind of call.
  [[nodiscard]] std::vector<SessionLockWaits> lock_waits() { return table_->lock_waits(); }

  /// Ends idle sessions and forgets expired marks of ended sessions, in small steps. Returns the time of the next work.
  /// Only for a registry with `sweeps_itself = false`.
  std::optional<Time> sweep() { return table_->sweep(); }

  /// For tests: checks all tables and describes an inconsistency. Empty if there is none.
  [[nodiscard]] std::string check() { return table_->check(); }

 private:
  struct Entry final : internal::GroupEntry {
    template <class Make>
    Entry(std::string_view key, internal::Ref<internal::Activity> session, std::size_t name_size, Make& make)
        : GroupEntry(key, std::move(session), name_size), payload(make()) {}
    std::optional<Payload> payload;  ///< Empty after the group was removed.
  };

  static GroupToken token_of(internal::Ref<internal::GroupEntry> entry) {
    return GroupToken(internal::Ref<internal::GroupLease>::adopt(entry.release()));
  }
  static Result<SessionGroup> found(Result<internal::Ref<internal::GroupEntry>> entry) {
    if (!entry) return entry.error();
    const GroupId id = (*entry)->id();
    return SessionGroup{id, token_of(std::move(*entry))};
  }

  template <class Call>
  Result<void> visit(const GroupId& id, const Call& call) {
    return table_->visit(
        id, [](void* context, internal::GroupEntry& entry) { (*static_cast<const Call*>(context))(entry); },
        const_cast<Call*>(&call));
  }

  static RemovedGroup<Payload> released(internal::GroupEntry& entry) {
    std::optional<Payload> payload = std::exchange(static_cast<Entry&>(entry).payload, std::nullopt);
    return {entry.id(), std::string(entry.name()), std::move(*payload)};
  }
  static EndedSession<Payload> released(internal::Ended ended) {
    EndedSession<Payload> result{std::move(ended.session), std::move(ended.reason), {}};
    result.groups.reserve(ended.groups.size());
    for (const auto& entry : ended.groups) result.groups.push_back(released(*entry));
    return result;
  }

  std::unique_ptr<internal::SessionTable> table_;
};

}  // namespace cohort
