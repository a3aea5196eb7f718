#pragma once

#include <cstdint>
#include <string>

#include "cli/command_context.h"
#include "cli/paging.h"

namespace cohort {

/// What `cohort tasks` is asked for.
struct TaskListOptions {
  std::string group{};
  std::string state{};
  std::string tag{};
  std::size_t limit = 20;
  bool all = false;
  bool watch = false;
  std::uint64_t rounds = 0;  ///< Of --watch; 0: until interrupted.
};

/// The newest tasks that match, at most `limit`. `state`: instead of that of the options.
[[nodiscard]] Result<Listing> list_tasks(ApiClient& client, const TaskListOptions& options, const std::string& state,
                                         std::size_t limit);
/// Lists tasks every second until interrupted. On a terminal each list replaces the one before and fits the window:
/// a line of totals, the running tasks, then the newest others.
[[nodiscard]] Result<int> watch_tasks(const CommandContext& context, ApiClient& client, const TaskListOptions& options);

}  // namespace cohort
