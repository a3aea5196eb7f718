#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/group/group_executor_options.h"
#include "cohort/task/internal/task_label.h"
#include "group/key_set.h"

namespace cohort::internal {

/// Says which limits hold for a key: explicit map, resolver, defaults, field by field; then what was changed at run
/// time, which stays until it is changed again, whether the group is in memory or not.
///
/// Thread-safety: thread-compatible.
class GroupPolicy {
 public:
  explicit GroupPolicy(GroupExecutorOptions& options);

  struct Resolved {
    ResolvedLimits limits;
    bool paused = false;
  };
  /// Adds the keys whose policy in the map or the defaults lets submitters wait.
  void note_keys_that_block(KeySet& keys) const;

  /// `answer`: what the resolver said, see ask().
  [[nodiscard]] Resolved resolve(std::string_view key, const GroupLimits& answer) const;

  [[nodiscard]] bool has_resolver() const { return static_cast<bool>(resolver_); }
  /// Users' code: with no lock held. Thread-safe.
  [[nodiscard]] GroupLimits ask(std::string_view key) const;

  /// No group has, or had, a smaller max_waiting.
  [[nodiscard]] std::uint32_t shortest_queue() const { return shortest_queue_; }

  /// Keeps the fields that are set; a max_concurrency of 0 stops the group until there is another.
  void change(std::string_view key, const GroupLimits& limits);
  /// Forgets what change() has said of a key.
  void clear(std::string_view key);
  /// False also ends what a max_concurrency of 0 began.
  void set_paused(std::string_view key, bool paused);
  /// By set_paused or by a max_concurrency of 0.
  [[nodiscard]] bool is_paused(std::string_view key) const;

 private:
  struct Change {
    GroupLimits limits;
    bool paused = false;
    bool stopped = false;  ///< By a max_concurrency of 0.
    friend bool operator==(const Change&, const Change&) = default;
  };
  // Keys may come from outside. Looking one up makes no string.
  struct KeyHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return TaskLabel::hash(key); }
  };
  template <class Value>
  using ByKey = std::unordered_map<std::string, Value, KeyHash, std::equal_to<>>;

  ByKey<GroupLimits> groups_;
  mutable Function<GroupLimits(std::string_view)> resolver_;  // Does not change.
  GroupLimits defaults_;
  ByKey<Change> changes_;
  std::uint32_t shortest_queue_;
};

[[nodiscard]] constexpr bool lets_submitters_wait(OverflowPolicy policy) {
  return policy == OverflowPolicy::kBlock || policy == OverflowPolicy::kCallerRuns;
}

/// `limits` with the fields of `change` that are set. A max_concurrency of 0 changes nothing, see GroupPolicy. A
/// max_overrunning that went with the concurrency goes on doing so.
[[nodiscard]] ResolvedLimits changed(const ResolvedLimits& limits, const GroupLimits& change);

}  // namespace cohort::internal
