#include "admin/node_health.h"

namespace cohort {

NodeHealth health_of(const NodeControl& control) {
  if (const auto fault = control.store.fault()) return {false, "store fault", fault->message};
  switch (control.state.load()) {
    case NodeState::kStarting: return {false, "starting", ""};
    case NodeState::kRunning: break;
    case NodeState::kDraining: return {false, "draining", ""};
    case NodeState::kStopped: return {false, "stopped", ""};
  }
  if (const auto trouble = control.store.trouble()) return {false, "store unavailable", trouble->message};
  if (!control.engine.stats().has_lease) {
    return {false, "no lease", "this node has lost its lease and is joining again"};
  }
  return {true, "ready", ""};
}

}  // namespace cohort
