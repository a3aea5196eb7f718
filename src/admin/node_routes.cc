#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "api/openapi.h"
#include "cohort/base/version.h"

namespace cohort {
namespace {

using nlohmann::json;

const char* name_of(NodeState state) {
  switch (state) {
    case NodeState::kStarting: return "starting";
    case NodeState::kRunning: return "running";
    case NodeState::kDraining: return "draining";
    case NodeState::kStopped: break;
  }
  return "stopped";
}

json node_json(NodeControl& control, const StoreStats& stored, Duration uptime) {
  const ChainStats chains = control.engine.stats();
  json tasks = json::object();
  for (std::size_t i = 0; i < kChainStates; ++i) {
    tasks[std::string(to_string(static_cast<ChainState>(i)))] = stored.tasks[i];
  }
  return {{"node", control.name},
          {"version", COHORT_VERSION},
          {"boot", chains.boot},
          {"state", name_of(control.state.load())},
          {"uptime_s", std::chrono::duration<double>(uptime).count()},
          {"store", {{"kind", control.store_kind}, {"folder", control.store_folder}}},
          {"plugins", control.plugins},
          {"concurrency", control.concurrency},
          {"chains",
           {{"running", chains.running},
            {"kept", chains.kept},
            {"completed", chains.completed},
            {"failed", chains.failed},
            {"retried", chains.retried},
            {"has_lease", chains.has_lease}}},
          {"tasks", std::move(tasks)},
          {"dead_letters", stored.dead_letters}};
}

// Ready is who can take a task now: it runs, and its lease says that the store can be written.
void readyz(NodeControl& control, Respond respond) {
  const NodeState state = control.state.load();
  if (state != NodeState::kRunning) return respond(json_response({{"status", name_of(state)}}, 503));
  if (!control.engine.stats().has_lease) return respond(json_response({{"status", "store unavailable"}}, 503));
  respond(json_response({{"status", "ready"}}));
}

}  // namespace

void add_node_routes(NodeControl& control, RouteHandlers& handlers) {
  const Time started = std::chrono::steady_clock::now();
  handlers["get_node"] = [&control, started](const ServerRequest&, Respond respond) {
    control.store.stats([&control, started, respond = std::move(respond)](Result<StoreStats> stats) mutable {
      if (!stats) return respond(ServerResponse::of(stats.error()));
      respond(json_response(node_json(control, *stats, std::chrono::steady_clock::now() - started)));
    });
  };
  handlers["get_openapi"] = [](const ServerRequest&, Respond respond) { respond({.body = openapi_document()}); };
  handlers["healthz"] = [](const ServerRequest&, Respond respond) { respond(json_response({{"status", "ok"}})); };
  handlers["readyz"] = [&control](const ServerRequest&, Respond respond) { readyz(control, std::move(respond)); };
}

}  // namespace cohort
