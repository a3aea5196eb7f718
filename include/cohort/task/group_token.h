#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "cohort/task/internal/group_lease.h"

namespace cohort {

/// The right to submit work to a group until somebody takes it back. Copies are the same right.
///
///     GroupToken token("session-7/audio");
///     executor.submit(token, "chunk-1", decode);
///     executor.close_group(token);   // Cancels what came with this token; a late submit with it is rejected.
///
/// It is for owners of groups that come and go: a key can be used again at once, with another token, and nothing that
/// is late hits the newcomer.
///
/// Thread-safety: thread-safe, except assigning to one token object.
class GroupToken {
 public:
  /// A group's key has 1 to 1,024 bytes; a submit with any other is rejected.
  explicit GroupToken(std::string_view key);
  explicit GroupToken(internal::Ref<internal::GroupLease> lease) : lease_(std::move(lease)) {}
  /// The same right, not an equal key.
  friend bool operator==(const GroupToken& a, const GroupToken& b) { return a.lease_.get() == b.lease_.get(); }

  [[nodiscard]] std::string_view key() const { return lease_->key(); }
  [[nodiscard]] bool is_closed() const { return lease_->is_closed(); }
  /// Tasks submitted with it that have not ended yet. One that has may count a moment longer.
  [[nodiscard]] std::uint32_t open_tasks() const { return lease_->open_tasks(); }

  /// For executors.
  [[nodiscard]] internal::GroupLease& lease() const { return *lease_; }

 private:
  internal::Ref<internal::GroupLease> lease_;
};

}  // namespace cohort
