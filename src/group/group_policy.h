#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/group/group_executor_options.h"

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
  [[nodiscard]] Resolved resolve(std::string_view key);

  /// Sets the fields that are set; a max_concurrency of 0 pauses instead.
  void change(std::string_view key, const GroupLimits& limits);
  void set_paused(std::string_view key, bool paused);

 private:
  struct Change {
    GroupLimits limits;
    bool paused = false;
    friend bool operator==(const Change&, const Change&) = default;
  };
  [[nodiscard]] GroupLimits ask_resolver(std::string_view key);

  std::unordered_map<std::string, GroupLimits> groups_;
  Function<GroupLimits(std::string_view)> resolver_;
  GroupLimits defaults_;
  std::unordered_map<std::string, Change> changes_;
};

}  // namespace cohort::internal
