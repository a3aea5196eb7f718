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

/// One group in the table; SessionRegistry derives one that carries the payload. What is not the lease's is guarded by
/// the lock of its shard until it is removed, and then its remover's.
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
    // All of it, with what the allocator has in front of it and the beginning of what stands behind.
    const char* const first = reinterpret_cast<const char*>(this) - 16;
    for (std::size_t at = 0; at <= sizeof(GroupEntry) + 16; at += 64) __builtin_prefetch(first + at, 1);
  }

  GroupId id_;
  GroupEntry* next_ = nullptr;   // In its bucket.
  GroupEntry** link_ = nullptr;  // What points to it there.
  std::uint32_t place_ = 0;      // In its session.
  std::uint32_t name_size_;
};

/// What a session leaves behind.
struct Ended {
  std::string session;
  std::string reason;
  std::vector<Ref<GroupEntry>> groups;  ///< In the order of their creation.
};

/// The registry without the payloads: which session has which groups.
///
/// Thread-safety: thread-safe.
class SessionTable {
 public:
  static std::unique_ptr<SessionTable> make(SessionOptions options, Function<void(Ended)> on_idle_end);
  virtual ~SessionTable() = default;

  /// Makes the entry of a group, with the key and the session it is given.
  using MakeEntry = Function<Ref<GroupEntry>(std::string_view key, Ref<Activity> session, std::size_t name_size)>;
  struct Ensured {
    GroupId id;
    Ref<GroupEntry> entry;
    bool created = false;
  };
  /// `make` runs with no lock held, and what it made may not be needed.
  virtual Result<Ensured> ensure(const SessionId& session, const GroupName& name, MakeEntry make) = 0;
  virtual Result<Ref<GroupEntry>> find(const SessionId& session, const GroupName& name) = 0;
  virtual Result<Ref<GroupEntry>> find(const GroupId& id) = 0;
  /// Calls `call(context, entry)` with its shard locked.
  virtual Result<void> visit(const GroupId& id, void (*call)(void* context, GroupEntry& entry), void* context) = 0;
  /// The entry is the caller's then.
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
  /// Does what is due, and returns when something will be.
  virtual std::optional<Time> sweep() = 0;
  /// The end: takes everything out, closes it, and gives it to the caller.
  virtual std::vector<Ref<GroupEntry>> clear() = 0;
  /// Walks all of it; says what disagrees, or nothing.
  [[nodiscard]] virtual std::string check() = 0;
};

}  // namespace cohort::internal
