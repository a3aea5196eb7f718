#pragma once

#include <string>

#include "admin/node_control.h"

namespace cohort {

/// Whether a node takes work, and if not, why. /readyz and /v1/node both answer with it, and the store and the engine
/// log the same text when it begins.
struct NodeHealth {
  bool ready = false;
  std::string status =
      {};  ///< "ready", "starting", "draining", "stopped", "store fault", "store unavailable", "no lease"
  std::string problem = {};  ///< What is wrong and what to do; empty while it is ready, starts or drains.
};

[[nodiscard]] NodeHealth health_of(const NodeControl& control);

}  // namespace cohort
