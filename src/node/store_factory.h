#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cohort/base/result.h"
#include "cohort/broker/broker.h"
#include "cohort/node/node_config.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// The store that a configuration chooses, opened.
struct OpenedStore {
  std::unique_ptr<TaskStore> store;
  std::string kind;          ///< "sqlite" or "postgres".
  std::string place;         ///< For people: its folder, or its server.
  int lock_descriptor = -1;  ///< A process that inherits it keeps other nodes out; -1: nothing is locked.
};

/// Where the node keeps files beside its store.
[[nodiscard]] std::filesystem::path data_folder(const StoreConfig& config);

/// `who` is what another node that wants the same store is told of this one.
[[nodiscard]] Result<OpenedStore> open_store(const StoreConfig& config, const std::string& who);

/// Where messages come from and events go to. Null: nothing is configured, tasks come over HTTP alone.
[[nodiscard]] Result<std::unique_ptr<Broker>> make_broker(const NodeConfig& config);

}  // namespace cohort
