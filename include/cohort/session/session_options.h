#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/session/session_ids.h"

namespace cohort {

class Executor;

/// A change in a SessionRegistry, for its listener.
struct SessionEvent {
  enum class Kind {
    kGroupCreated,
    kGroupRemoved,  ///< remove_group() removed a group. The end of a session sends only kSessionEnded.
    kSessionEnded,  ///< A session has ended, together with all its groups.
  };
  Kind kind = Kind::kGroupCreated;
  std::string_view session{};
  std::string_view group{};   ///< For kGroupCreated and kGroupRemoved: the group's name.
  GroupId id{};               ///< For kGroupCreated and kGroupRemoved: the group's id.
  std::string_view reason{};  ///< For kSessionEnded: why the session ended.
  std::size_t groups = 0;     ///< For kSessionEnded: the number of groups that the session had.
};

struct SessionOptions {
  /// The executor that runs the work of the groups. When a session ends or a group is removed, the registry cancels the
  /// work there. The executor must outlive the registry. Null: the registry cancels nothing.
  Executor* executor = nullptr;

  /// A session ends by itself, with the reason "idle", after this time without activity. Activity is a successful call
  /// of ensure_group, find_group, with_group, set_active_group or touch, and a task that waits, runs or has just ended.
  /// 0: a session never ends by itself.
  Duration ttl = std::chrono::minutes(30);
  /// How long the registry remembers an ended session. Late calls that name the session get kEnded meanwhile.
  Duration remember_ended = std::chrono::minutes(5);

  /// Maximum number of sessions, remembered ended sessions included. Further sessions are rejected with kRejected.
  /// Sessions that did not exist when they were ended do not count. The registry remembers at most a sixteenth as many
  /// of them, the newest.
  std::size_t max_sessions = 10'000'000;
  /// Maximum number of groups of a session. Further groups are rejected with kRejected.
  std::size_t max_groups_per_session = 100'000;

  /// Number of shards, each with its own lock. Use more shards than threads, so that threads seldom wait for one
  /// another. Rounded up to a power of two, at most 4,096.
  std::uint32_t shards = 64;

  /// Gets the changes. The registry calls it with no lock held, on the thread whose call made the change. The listener
  /// may call the registry and may be slow. The registry ignores its exceptions.
  Function<void(const SessionEvent&)> listener{};

  /// Null: the executor's clock; without an executor, the system's.
  Clock* clock = nullptr;
  /// True: a thread of the registry ends idle sessions and forgets ended ones. It sleeps while nothing is due. False:
  /// only calls of sweep() do it.
  bool sweeps_itself = true;
  /// For tests: the secret for the hashes of ids, so that they are equal in every run. Not set: a secret of the
  /// process, so that no caller can choose ids that all fall into one bucket.
  std::optional<std::uint64_t> hash_secret{};
};

/// How long one kind of call has waited for locks of the registry.
struct SessionLockWaits {
  std::string_view call{};   ///< ensure, find, visit, remove, end, active, groups_of, touch, sweep or look.
  std::uint64_t calls = 0;   ///< The number of times that this kind of call took a lock.
  std::uint64_t waited = 0;  ///< How many of `calls` had to wait because another thread held the lock.
  Duration longest{0};       ///< The longest wait.
  Duration p99{0};           ///< The 99th percentile of the wait, over all `calls`.
};

}  // namespace cohort
