#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/result.h"
#include "cohort/session/session_ids.h"
#include "cohort/session/session_options.h"
#include "cohort/task/internal/group_lease.h"

namespace cohort::internal {

struct SessionState;

/// One group in the table. SessionRegistry derives a class from it that holds the payload. The lock of the shard guards
/// all members that do not belong to GroupLease. After the removal the entry belongs to the thread that removed it.
class GroupEntry : public GroupLease {
 public:
  /// `key` is executor_key(session, name).
  GroupEntry(std::string_view key, Ref<Activity> session, std::size_t name_size)
      : GroupLease(key, std::move(session)), name_size_(static_cast<std::uint32_t>(name_size)) {}

  [[nodiscard]] const GroupId& id() const { return id_; }
  [[nodiscard]] std::string_view name() const { return key().substr(key().size() - name_size_); }

 private:
  template <class Faults>
  friend class ShardedSessionTable;
  template <class Node, std::size_t kPerNode>
  friend class SplitTable;
  friend struct SessionState;

  [[nodiscard]] std::uint32_t hash() const { return id_.hash; }
  void prefetch() const {
    // The whole entry, the allocator's header in front of it, and the beginning of the payload behind it.
    const char* const first = reinterpret_cast<const char*>(this) - 16;
    for (std::size_t at = 0; at <= sizeof(GroupEntry) + 16; at += 64) __builtin_prefetch(first + at, 1);
  }

  GroupId id_;
  GroupEntry* next_ = nullptr;   // The next entry in the bucket.
  GroupEntry** link_ = nullptr;  // The pointer in the bucket that points to this entry.
  std::uint32_t place_ = 0;      // The index in the session's list of groups.
  std::uint32_t name_size_;
};

/// A session that has ended, with the groups that it had.
struct Ended {
  std::string session;
  std::string reason;
  std::vector<Ref<GroupEntry>> groups;  ///< In the order of their creation.
};

/// The part of SessionRegistry that does not depend on the payload: it knows which session has which groups.
///
/// Thread-safety: thread-safe.
class SessionTable {
 public:
  static std::unique_ptr<SessionTable> make(SessionOptions options, Function<void(Ended)> on_idle_end);
  virtual ~SessionTable() = default;

  /// Makes the entry of a group with the given key and session.
  using MakeEntry = Function<Ref<GroupEntry>(std::string_view key, Ref<Activity> session, std::size_t name_size)>;
  struct Ensured {
    GroupId id;
    Ref<GroupEntry> entry;
    bool created = false;
  };
  /// Finds or creates a group. `make` runs with no lock held. The table may drop the entry that `make` returned.
  virtual Result<Ensured> ensure(const SessionId& session, const GroupName& name, MakeEntry make) = 0;
  virtual Result<Ref<GroupEntry>> find(const SessionId& session, const GroupName& name) = 0;
  virtual Result<Ref<GroupEntry>> find(const GroupId& id) = 0;
  /// Calls `call(context, entry)` with the group's shard locked.
  virtual Result<void> visit(const GroupId& id, void (*call)(void* context, GroupEntry& entry), void* context) = 0;
  /// Removes the group. The entry then belongs to the caller.
  virtual Result<Ref<GroupEntry>> remove(const GroupId& id) = 0;
  virtual Result<Ended> end(const SessionId& session, std::string_view reason) = 0;

  virtual Result<GroupId> active(const SessionId& session) = 0;
  virtual Result<void> set_active(const GroupId& id) = 0;
  virtual Result<std::vector<Ref<GroupEntry>>> groups_of(const SessionId& session) = 0;
  virtual Result<void> touch(const SessionId& session) = 0;

  struct Counts {
    std::size_t sessions = 0;
    std::size_t groups = 0;
    std::size_t ended = 0;
  };
  [[nodiscard]] virtual Counts counts() = 0;
  [[nodiscard]] virtual std::vector<SessionLockWaits> lock_waits() = 0;
  /// Ends idle sessions and forgets expired marks of ended sessions. Returns the time of the next work.
  virtual std::optional<Time> sweep() = 0;
  /// Removes and closes all groups and returns them. Stops the sweeper thread. For the destructor of the registry.
  virtual std::vector<Ref<GroupEntry>> clear() = 0;
  /// Checks all tables and describes an inconsistency. Empty if there is none.
  [[nodiscard]] virtual std::string check() = 0;
};

}  // namespace cohort::internal
