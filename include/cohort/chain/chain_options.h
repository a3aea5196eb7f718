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

/// Copies the file that a task names into a folder and gives the path of the copy. May block; should end soon after a
/// stop request. kUnavailable and kTimedOut are tried again by the retry policy of the step. kRejected (this node is
/// short of descriptors or memory) is tried again and uses up no retry.
using FileSource = std::function<Result<std::filesystem::path>(const std::string& reference,
                                                               const std::filesystem::path& folder, std::stop_token)>;

/// How a node runs chains.
struct ChainOptions {
  std::string node = "node";  ///< The name of the node. It must stay the same after a restart.
  /// How many tasks run on this node at a time. Set the executor's global limit to this value too. At most four times
  /// as many tasks are kept between two attempts.
  std::uint32_t concurrency = 4;

  /// The deadline of tasks that give none. Duration::max(): those tasks have no deadline.
  Duration deadline = NewTask::kDefaultDeadline;
  std::map<std::string, ChainTemplate> templates = {};       ///< The chains that a task may name.
  Duration step_timeout = std::chrono::minutes(5);           ///< Time-out of one attempt of a step that gives none.
  Duration chain_limit = std::chrono::minutes(30);           ///< Limit of the running time of a task, over all runs.
  RetryPolicy retry{};                                       ///< For steps that give no retry policy.
  Duration longest_wait_in_place = std::chrono::seconds(1);  ///< A longer back-off gives the permits back.
  Duration keep = std::chrono::minutes(1);                   ///< How long claim and folder are kept during that.
  Duration overrun_grace = std::chrono::seconds(30);         ///< A body may run for so long past its time-out.

  /// Deaths of a node while a step ran in a process of its own, after which the step is poison.
  std::uint32_t poison_after = 10;

  Duration lease = std::chrono::seconds(15);  ///< Length of the lease on a store that nodes share.
  Duration renew_every = std::chrono::seconds(5);
  Duration look_every = std::chrono::seconds(30);  ///< How often to look for tasks of which no news came.
  Duration retention = std::chrono::hours(168);    ///< How long ended tasks are kept. 0: for ever.

  /// In it the engine makes a locked folder of its own with a private folder for each run. At the start it removes the
  /// folders of engines that no longer run. Empty: tasks with a file are refused.
  std::filesystem::path work_folder = {};
  FileSource fetch = {};
  /// Checks at submit whether `fetch` may fetch a file. Empty: a task may name any file.
  std::function<Result<void>(const std::string& reference)> check_file = {};
  Clock* lease_clock = nullptr;  ///< Null: boottime_clock().
  std::uint64_t seed = 0;        ///< Of back-offs and ids; 0: from the system.
};

}  // namespace cohort
