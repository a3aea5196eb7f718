#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/chain/chain_template.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// Brings the file that a task names into a folder, and says where it is. May block; should end when it is asked to.
/// kUnavailable and kTimedOut are tried again, as the step's retry policy says. kRejected: this node is short of
/// descriptors, memory or the like; it is tried again and uses up no retry.
using FileSource = std::function<Result<std::filesystem::path>(const std::string& reference,
                                                               const std::filesystem::path& folder, std::stop_token)>;

/// How a node runs chains.
struct ChainOptions {
  std::string node = "node";  ///< Its name; the same after a restart.
  /// How many tasks run at a time here. The executor's limits say so too; this is for what is kept between attempts.
  std::uint32_t concurrency = 4;

  /// The deadline of a task that gives none; Duration::max(): none at all.
  Duration deadline = NewTask::kDefaultDeadline;
  std::map<std::string, ChainTemplate> templates = {};       ///< The chains that a task may name.
  Duration step_timeout = std::chrono::minutes(5);           ///< Of one attempt, unless the step says.
  Duration chain_limit = std::chrono::minutes(30);           ///< Of the running time of a task, over all runs.
  RetryPolicy retry{};                                       ///< Unless the step says.
  Duration longest_wait_in_place = std::chrono::seconds(1);  ///< A longer back-off gives the permits back.
  Duration keep = std::chrono::minutes(1);                   ///< How long claim and folder are kept meanwhile.
  Duration overrun_grace = std::chrono::seconds(30);         ///< For a body past its time-out, until its task fails.

  /// Deaths of a node while a step ran in a process of its own, after which the step is poison.
  std::uint32_t poison_after = 10;

  Duration lease = std::chrono::seconds(15);  ///< Of a store that several nodes share.
  Duration renew_every = std::chrono::seconds(5);
  Duration look_every = std::chrono::seconds(30);  ///< The safety net: for what nobody told this node of.
  Duration retention = std::chrono::hours(168);    ///< Of ended tasks; 0: for ever.

  /// Under it the engine makes a locked folder of its own, and in that a private folder for each run. Folders of
  /// engines that are gone are removed at the start. Empty: tasks with a file are refused.
  std::filesystem::path work_folder = {};
  FileSource fetch = {};
  /// Says whether `fetch` would be allowed to fetch a file; asked when a task is submitted. Empty: any may be named.
  std::function<Result<void>(const std::string& reference)> check_file = {};
  /// The store's folder is locked for this process: the process that had it before is dead, and there is no lease to
  /// lose.
  bool folder_is_ours = true;

  Clock* lease_clock = nullptr;  ///< Null: boottime_clock().
  std::uint64_t seed = 0;        ///< Of back-offs and ids; 0: from the system.
};

}  // namespace cohort
