#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cohort/base/ids.h"

namespace cohort {

struct SessionKind {
  static constexpr std::string_view kName = "session id";
  static constexpr std::size_t kMaxBytes = 256;
};
struct GroupNameKind {
  static constexpr std::string_view kName = "group name";
  static constexpr std::size_t kMaxBytes = 255;
};

/// Names a session: for example a connection, a phone call or a user. 1 to 256 bytes.
using SessionId = Id<SessionKind>;
/// Names a group within its session. 1 to 255 bytes.
using GroupName = Id<GroupNameKind>;

/// Identifies one group of one session from its creation to its removal. A group that is created again under the same
/// name has another id. The id holds the place where the registry finds the group.
///
/// Thread-safety: thread-compatible (a plain value).
struct GroupId {
  std::uint32_t shard = 0;
  std::uint32_t hash = 0;
  std::uint64_t generation = 0;  ///< 0: no group.

  friend auto operator<=>(const GroupId&, const GroupId&) = default;
  /// The id as text, for logs.
  [[nodiscard]] std::string str() const {
    return std::to_string(shard) + "-" + std::to_string(hash) + "-" + std::to_string(generation);
  }
};

/// The key of a session's group in the executor: the session id, a slash, the group name. A slash in the session id
/// becomes %2F and a percent sign becomes %25, so two groups never share a key. A key has at most 1,024 bytes.
[[nodiscard]] std::string executor_key(const SessionId& session, const GroupName& name);

}  // namespace cohort

template <>
struct std::hash<cohort::GroupId> {
  std::size_t operator()(const cohort::GroupId& id) const {
    return std::hash<std::uint64_t>{}(id.generation * 0x9E37'79B9'7F4A'7C15ULL + id.shard);
  }
};
