#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "cohort/task/internal/group_lease.h"

namespace cohort {

/// The right to submit work to a group. It lasts until close_group(). Copies of a token share one right.
///
///     GroupToken token("session-7/audio");
///     executor.submit(token, "chunk-1", decode);
///     executor.close_group(token);   // Cancels what came with this token; a late submit with it is rejected.
///
/// For owners of groups that come and go: after a close, a new token can use the key again at once. Late calls with the
/// closed token do not affect the work of the new token.
///
/// Thread-safety: thread-safe, except assignment to a token object that another thread uses.
class GroupToken {
 public:
  /// Makes a new right. A key has 1 to 1,024 bytes; a submit with a token of any other key is rejected.
  explicit GroupToken(std::string_view key);
  explicit GroupToken(internal::Ref<internal::GroupLease> lease) : lease_(std::move(lease)) {}
  /// True if both tokens are the same right. Tokens of equal keys can be different rights.
  friend bool operator==(const GroupToken& a, const GroupToken& b) { return a.lease_.get() == b.lease_.get(); }

  [[nodiscard]] std::string_view key() const { return lease_->key(); }
  [[nodiscard]] bool is_closed() const { return lease_->is_closed(); }
  /// The number of tasks of this token that have not ended. An ended task may count for a moment longer.
  [[nodiscard]] std::uint32_t open_tasks() const { return lease_->open_tasks(); }

  /// For executors.
  [[nodiscard]] internal::GroupLease& lease() const { return *lease_; }

 private:
  internal::Ref<internal::GroupLease> lease_;
};

}  // namespace cohort
