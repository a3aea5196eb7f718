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

/// What a registry of sessions tells its listener.
struct SessionEvent {
  enum class Kind {
    kGroupCreated,
    kGroupRemoved,  ///< By remove_group. The groups of an ended session are told of once, by the next one.
    kSessionEnded,
  };
  Kind kind = Kind::kGroupCreated;
  std::string_view session{};
  std::string_view group{};   ///< Of kGroupCreated and kGroupRemoved.
  GroupId id{};               ///< Likewise.
  std::string_view reason{};  ///< Of kSessionEnded, as is
  std::size_t groups = 0;     ///< how many groups went with it.
};

struct SessionOptions {
  /// Where the groups' work runs: a session that ends, and a group that is removed, cancels it there. It must outlive
  /// the registry. Without one the registry only keeps the books.
  Executor* executor = nullptr;

  /// A session ends by itself, with the reason "idle", after so long without activity: any call that names it or one
  /// of its groups (but remove_group, counts and looks), and work that waits, runs, or has just ended. 0: never.
  Duration ttl = std::chrono::minutes(30);
  /// How long an ended session is remembered, so that whoever is late gets kEnded.
  Duration remember_ended = std::chrono::minutes(5);

  /// How many sessions may be known, ended ones included, and how many groups one may have: more are kRejected. Marks
  /// of sessions that had never been there do not count: of these a sixteenth as many are kept, the newest.
  std::size_t max_sessions = 10'000'000;
  std::size_t max_groups_per_session = 100'000;

  /// Locks. More than there are threads keeps them from waiting for one another; rounded up to a power of two, at most
  /// 4,096.
  std::uint32_t shards = 64;

  /// Called with no lock held, on the thread whose call caused it. It may call the registry, may be slow, and may
  /// throw, which is ignored.
  Function<void(const SessionEvent&)> listener{};

  /// The executor's, else the system's.
  Clock* clock = nullptr;
  /// Who ends idle sessions and forgets ended ones: a thread of the registry's own, which sleeps while nothing is due;
  /// or nobody but who calls sweep().
  bool sweeps_itself = true;
  /// For tests: ids are hashed with this, the same way each time. Nothing: with a secret of the process, so that nobody
  /// can choose ids that all fall into one place.
  std::optional<std::uint64_t> hash_secret{};
};

/// How long one kind of call has waited for locks of the registry.
struct SessionLockWaits {
  std::string_view call{};  ///< ensure, find, visit, remove, end, active, groups_of, touch, sweep or look.
  std::uint64_t calls = 0;
  std::uint64_t waited = 0;  ///< So many of them, because the lock was not free at once.
  Duration longest{0};
  Duration p99{0};  ///< Of all of them.
};

}  // namespace cohort
