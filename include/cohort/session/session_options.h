#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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

  /// How many sessions may be known, ended ones included, and how many groups one may have: more are kRejected.
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
};

}  // namespace cohort
