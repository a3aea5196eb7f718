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

/// A group of a session, as ensure_group and find_group give it.
struct SessionGroup {
  GroupId id;
  GroupToken token;      ///< To submit its work with.
  bool created = false;  ///< By this call.
};

/// A group that is no longer in the registry.
template <class Payload>
struct RemovedGroup {
  GroupId id;
  std::string name;
  Payload payload;
};

template <class Payload>
struct EndedSession {
  std::string session;
  std::string reason;
  std::vector<RemovedGroup<Payload>> groups;  ///< In the order of their creation.
};

/// Which session has which groups, with a payload for each; the owner of their lifetimes.
///
///     SessionRegistry<Transcript> sessions({.executor = &executor});
///     auto group = sessions.ensure_group(session, utterance);
///     executor.submit(group->token, "recognise", recognise);
///     sessions.with_group(group->id, [&](Transcript& transcript) { transcript.append(text); });
///     auto ended = sessions.end_session(session, "hung up");   // its transcripts; its work is cancelled
///
/// Every call touches one session and locks one shard, briefly; none walks all groups. A session begins with its first
/// group and is gone with its last, or is ended: then its groups go, their tokens are closed, what waits on the
/// executor settles as cancelled, what runs is asked to stop; and for a while whoever is late gets kEnded and creates
/// nothing.
///
/// Errors: kEnded for an ended session, kNotFound for what is not there (any more), kRejected past a limit.
///
/// Thread-safety: thread-safe.
/// Example: examples/06_sessions.cc
template <class Payload>
class SessionRegistry {
 public:
  /// `on_idle_end` gets what an idle session leaves behind, with no lock held; it may throw, which is ignored.
  explicit SessionRegistry(SessionOptions options = {},
                           std::function<void(EndedSession<Payload>)> on_idle_end = nullptr)
      : table_(internal::SessionTable::make(std::move(options),
                                            [on_idle_end = std::move(on_idle_end)](internal::Ended ended) {
                                              EndedSession<Payload> result = released(std::move(ended));
                                              if (on_idle_end) on_idle_end(std::move(result));
                                            })) {}
  /// Closes all tokens, which cancels their work, and drops all payloads; tells nobody. It does not wait for bodies
  /// that run: shut the executor down first where they use the registry.
  ~SessionRegistry() {
    for (const auto& entry : table_->clear()) static_cast<Entry&>(*entry).payload.reset();
  }
  SessionRegistry(const SessionRegistry&) = delete;
  SessionRegistry& operator=(const SessionRegistry&) = delete;

  /// The session's group of that name; made, with the payload that `make()` returns, if there is none. `make` runs with
  /// no lock held; of two that are made at once for one name one is dropped.
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
  Result<SessionGroup> ensure_group(const SessionId& session, const GroupName& name)
    requires std::is_default_constructible_v<Payload>
  {
    return ensure_group(session, name, [] { return Payload(); });
  }

  [[nodiscard]] Result<SessionGroup> find_group(const SessionId& session, const GroupName& name) {
    return found(table_->find(session, name));
  }
  [[nodiscard]] Result<SessionGroup> find_group(const GroupId& id) { return found(table_->find(id)); }

  /// Calls `f(payload)` with the group's shard locked, and gives what it returns: to read or change the payload, merge
  /// an output, mark it complete. It must be brief and must not call the registry. What it throws comes out here.
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

  /// Takes the group out and closes its token. A session without groups is forgotten, not ended.
  Result<RemovedGroup<Payload>> remove_group(const GroupId& id) {
    auto removed = table_->remove(id);
    if (!removed) return removed.error();
    return released(**removed);
  }

  /// The one of the session's groups that was last set as active.
  [[nodiscard]] Result<GroupId> active_group(const SessionId& session) { return table_->active(session); }
  Result<void> set_active_group(const GroupId& id) { return table_->set_active(id); }

  struct Group {
    GroupId id;
    std::string name;
  };
  /// In the order of their creation.
  [[nodiscard]] Result<std::vector<Group>> groups_of(const SessionId& session) {
    auto entries = table_->groups_of(session);
    if (!entries) return entries.error();
    std::vector<Group> groups;
    groups.reserve(entries->size());
    for (const auto& entry : *entries) groups.push_back({entry->id(), std::string(entry->name())});
    return groups;
  }

  /// Ends the session and returns what it had; O(its groups). An unknown session is marked as ended too, so that its
  /// first group cannot come after its end.
  Result<EndedSession<Payload>> end_session(const SessionId& session, std::string_view reason) {
    auto ended = table_->end(session, reason);
    if (!ended) return ended.error();
    return released(std::move(*ended));
  }

  /// Counts as activity.
  Result<void> touch(const SessionId& session) { return table_->touch(session); }

  using Counts = internal::SessionTable::Counts;
  /// Sessions that have groups, their groups, and ended sessions that are remembered.
  [[nodiscard]] Counts counts() { return table_->counts(); }

  /// How long calls have waited for locks, by their kind.
  [[nodiscard]] std::vector<SessionLockWaits> lock_waits() { return table_->lock_waits(); }

  /// Ends what is idle and forgets what ended long ago, in small steps; returns when something will be due. For a
  /// registry that does not do so by itself.
  std::optional<Time> sweep() { return table_->sweep(); }

  /// For tests: walks everything and says what in it disagrees, or nothing.
  [[nodiscard]] std::string check() { return table_->check(); }

 private:
  struct Entry final : internal::GroupEntry {
    template <class Make>
    Entry(std::string_view key, internal::Ref<internal::Activity> session, std::size_t name_size, Make& make)
        : GroupEntry(key, std::move(session), name_size), payload(make()) {}
    std::optional<Payload> payload;  ///< Until it is removed.
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
