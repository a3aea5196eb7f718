#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// Brings the file that a task names into a folder, and says where it is. May block; should end when it is asked to.
/// kUnavailable, kTimedOut and kRejected are tried again, as the step's retry policy says.
using FileSource = std::function<Result<std::filesystem::path>(const std::string& reference,
                                                               const std::filesystem::path& folder, std::stop_token)>;

/// How a node runs chains.
struct ChainOptions {
  std::string node = "node";  ///< Its name; the same after a restart.
  /// How many tasks run at a time here. The executor's limits say so too; this is for what is kept between attempts.
  std::uint32_t concurrency = 4;

  Duration callback_timeout = std::chrono::minutes(5);       ///< Of one attempt, unless the callback says.
  Duration chain_limit = std::chrono::minutes(30);           ///< Of the running time of a task, over all runs.
  RetryPolicy retry{};                                       ///< Unless the callback says.
  Duration longest_wait_in_place = std::chrono::seconds(1);  ///< A longer back-off gives the permits back.
  Duration keep = std::chrono::minutes(1);                   ///< How long claim and folder are kept meanwhile.
  Duration overrun_grace = std::chrono::seconds(30);         ///< For a body past its time-out, until its task fails.

  Duration lease = std::chrono::seconds(15);
  Duration renew_every = std::chrono::seconds(5);
  Duration look_every = std::chrono::seconds(30);  ///< The safety net: for what nobody told this node of.
  Duration retention = std::chrono::hours(168);    ///< Of ended tasks; 0: for ever.

  /// Under it each run has a private folder, removed with it; what is left there of earlier ones is removed at the
  /// start, so it is this node's alone. Empty: tasks with a file are refused.
  std::filesystem::path work_folder = {};
  FileSource fetch = {};
  bool folder_is_ours = true;  ///< Whoever had the store before is dead: the store's folder is locked.

  Clock* lease_clock = nullptr;  ///< Null: boottime_clock().
  std::uint64_t seed = 0;        ///< Of back-offs and ids; 0: from the system.
};

}  // namespace cohort
