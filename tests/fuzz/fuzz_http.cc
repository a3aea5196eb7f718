// Any bytes on a connection to a node's HTTP side: it answers or ends the connection, and lives.

#include <atomic>
#include <cstdlib>
#include <string>

#include "admin/admin_routes.h"
#include "admin/http_server.h"
#include "admin/raw_client_test_fixture.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/group/group_executor.h"
#include "cohort/testing/memory_store.h"

namespace {

using namespace cohort;

struct World {
  World() {
    if (!plugins.add("ok", [](StepContext&) { return PluginResult::success(); })) std::abort();
    auto started = HttpServer::start(
        {.max_body = 1U << 16U, .max_header = 4096},
        [this](ServerRequest request, Respond respond) { routes.handle(std::move(request), std::move(respond)); });
    if (!started) std::abort();
    server = *std::move(started);
  }

  MemoryStore store{system_wall_clock()};
  GroupExecutor executor;
  PluginRegistry plugins;
  ChainEngine engine{store, executor, plugins};
  std::atomic<NodeState> state{NodeState::kRunning};
  NodeControl control{.engine = engine, .store = store, .executor = executor, .state = state};
  AdminRoutes routes{control};
  std::unique_ptr<HttpServer> server;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static World world;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (text.find("/v1/events") != std::string_view::npos) return 0;  // It never ends by itself.
  RawClient client(world.server->port());
  if (!client.is_connected()) std::abort();
  client.send(text);
  client.finish_sending();
  const std::string answer = client.read_all();
  if (!answer.empty() && !answer.starts_with("HTTP/1.")) std::abort();
  return 0;
}
