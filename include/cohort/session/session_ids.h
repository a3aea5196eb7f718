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

/// Whose groups they are: a connection, a call, a user. 1 to 256 bytes.
using SessionId = Id<SessionKind>;
/// What a group is called within its session. 1 to 255 bytes.
using GroupName = Id<GroupNameKind>;

/// One group of one session, from its creation to its removal: a group that is made again has another id. It carries
/// the place where the registry finds it.
///
/// Thread-safety: a value.
struct GroupId {
  std::uint32_t shard = 0;
  std::uint32_t hash = 0;
  std::uint64_t generation = 0;  ///< 0: no group.

  friend auto operator<=>(const GroupId&, const GroupId&) = default;
  /// For logs.
  [[nodiscard]] std::string str() const {
    return std::to_string(shard) + "-" + std::to_string(hash) + "-" + std::to_string(generation);
  }
};

/// The key under which an executor has the group of that name: the session id, a slash, the name. A slash or percent
/// sign in the session id is written as %2F or %25, so two groups never have one key; it has at most 1,024 bytes.
[[nodiscard]] std::string executor_key(const SessionId& session, const GroupName& name);

}  // namespace cohort

template <>
struct std::hash<cohort::GroupId> {
  std::size_t operator()(const cohort::GroupId& id) const {
    return std::hash<std::uint64_t>{}(id.generation * 0x9E37'79B9'7F4A'7C15ULL + id.shard);
  }
};
