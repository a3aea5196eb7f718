#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/chain/chain_template.h"
#include "cohort/store/task_store.h"
#include "cohort/task/executor.h"

namespace cohort {

/// Where a node is in its life.
enum class NodeState : std::uint8_t { kStarting, kRunning, kDraining, kStopped };

/// What the routes may know of a node and do with it. All of it outlives the routes.
struct NodeControl {
  ChainEngine& engine;
  TaskStore& store;
  Executor& executor;
  const std::atomic<NodeState>& state;

  std::string name = {};
  std::string store_kind = {};
  std::string store_folder = {};
  std::vector<std::string> plugins = {};
  std::map<std::string, ChainTemplate> chains = {};      ///< Those that the configuration names.
  std::vector<std::string> configured_groups = {};       ///< By name, sorted.
  std::uint32_t concurrency = 0;                         ///< Tasks at a time, of all groups.
  Duration event_ping_every = std::chrono::seconds(15);  ///< How often readers without news hear that the node lives.
  std::uint32_t max_event_streams = 64;
};

}  // namespace cohort
