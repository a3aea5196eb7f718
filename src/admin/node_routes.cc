#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "admin/node_health.h"
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
  const NodeHealth health = health_of(control);
  json node = {{"node", control.name},
               {"version", COHORT_VERSION},
               {"boot", chains.boot},
               {"state", name_of(control.state.load())},
               {"ready", health.ready},
               {"status", health.status},
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
               {"dead_letters", stored.dead_letters},
               {"damaged_rows", stored.damaged}};
  if (!health.problem.empty()) node["problem"] = health.problem;
  return node;
}

void readyz(NodeControl& control, Respond respond) {
  const NodeHealth health = health_of(control);
  json answer = {{"status", health.status}};
  if (!health.problem.empty()) answer["problem"] = health.problem;
  respond(json_response(answer, health.ready ? 200 : 503));
}

}  // namespace

void add_node_routes(NodeControl& control, RouteHandlers& handlers) {
  const Time started = std::chrono::steady_clock::now();
  handlers[Operation::kGetNode] = [&control, started](const ServerRequest&, Respond respond) {
    control.store.stats([&control, started, respond = std::move(respond)](Result<StoreStats> stats) mutable {
      if (!stats) return respond(ServerResponse::of(stats.error()));
      respond(json_response(node_json(control, *stats, std::chrono::steady_clock::now() - started)));
    });
  };
  handlers[Operation::kGetOpenApi] = [](const ServerRequest&, Respond respond) {
    respond({.body = openapi_document()});
  };
  handlers[Operation::kListChains] = [&control](const ServerRequest&, Respond respond) {
    json chains = json::array();
    for (const auto& [name, chain] : control.chains) chains.push_back(to_json(name, chain));
    respond(json_response({{"chains", std::move(chains)}}));
  };
  handlers[Operation::kHealthz] = [](const ServerRequest&, Respond respond) {
    respond(json_response({{"status", "ok"}}));
  };
  handlers[Operation::kReadyz] = [&control](const ServerRequest&, Respond respond) {
    readyz(control, std::move(respond));
  };
}

}  // namespace cohort
