// The examples of the public headers, compiled. Between `// [header]` and `// [end]` stands what the header says, word
// for word; around it stands what the example takes for granted.

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/ids.h"
#include "cohort/base/random.h"
#include "cohort/base/result.h"
#include "cohort/chain/chain_engine.h"
#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"
#include "cohort/node/node.h"
#include "cohort/provider/breaker.h"
#include "cohort/provider/bulkhead.h"
#include "cohort/provider/guard.h"
#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "cohort/session/session_registry.h"
#include "cohort/step/attempts.h"
#include "cohort/task/executor.h"
#include "cohort/task/group_token.h"
#include "cohort/task/promise.h"
#include "cohort/task/sleep.h"
#include "cohort/task/task.h"
#include "cohort/task/task_scope.h"
#include "cohort/task/this_task.h"
#include "cohort/task/when.h"
#include "cohort/testing/manual_executor.h"
#include "cohort/testing/memory_broker.h"
#include "cohort/testing/memory_store.h"

// Nothing here runs, so nothing looks at results.
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

namespace cohort::header_examples {

using namespace std::chrono_literals;

struct Page {};
Result<Page> fetch(Time deadline);
Result<Page> fetch(const std::string& url, Time deadline);
std::string url_of(std::string_view provider);
bool call();
void poll();
int read_a();
int read_b();
Executor& some_executor();

void node() {
  // [cohort/node/node.h]
  PluginRegistry plugins;
  plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
  auto node = Node::start({.store = {.sqlite = {.folder = "my-data"}}}, std::move(plugins));
  auto submitted = (*node)->chains().submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
  auto ended = (*node)->wait(submitted.value->task_id).await();
  // [end]
}

void breaker() {
  // [cohort/provider/breaker.h]
  Breaker breaker;
  if (Permit permit = breaker.allow()) {
    call() ? permit.success() : permit.failure(FailureType::kHttp5xx);
  } else {
    // Open: ask again at permit.retry_at().
  }
  // [end]
}

void bulkhead() {
  // [cohort/provider/bulkhead.h]
  Bulkhead bulkhead(50);
  if (Bulkhead::Place place = bulkhead.enter()) call();
  // [end]
}

void guard(std::shared_ptr<Breaker> breaker, std::shared_ptr<Bulkhead> bulkhead, const std::string& url) {
  // [cohort/provider/guard.h]
  Guard guard{.breaker = breaker, .bulkhead = bulkhead, .timeout = 2s, .total_timeout = 5s, .retry = quick_retries(2)};
  Result<Page> page = guarded(guard, [&](Time deadline) { return fetch(url, deadline); });
  // [end]
}

void options(std::shared_ptr<Router> router, Time deadline, std::stop_token stop) {
  const auto attempt = [](const Attempt& each) { return fetch(url_of(each.provider), each.deadline); };
  // [cohort/provider/router.h]
  auto routed = router->call(attempt, CallOptions().with_deadline(deadline).with_stop(stop));
  // [end]
}

Result<Page> ask(const Attempt& attempt);

void route(std::shared_ptr<Router> router) {
  // [cohort/provider/router.h]
  Route route(*router);
  while (route.next()) {
    Result<Page> page = ask(route.attempt());
    if (page) {
      route.succeed();
      break;
    }
    if (!route.fail({classify(page.error()), page.error(), {}, {}})) break;
  }
  // [end]
}

void router() {
  // [cohort/provider/router.h]
  auto router = Router::make({{.name = "east"}, {.name = "west"}}).value();
  Routed<Page> page = router->call(
      [&](const Attempt& attempt) -> Result<Page> { return fetch(url_of(attempt.provider), attempt.deadline); });
  // [end]
}

Task<void> http_client() {
  // [cohort/provider/http/http_client.h]
  auto client = HttpClient::make().value();
  HttpAnswer one = client->fetch("http://127.0.0.1:8080/page");                 // blocks
  HttpAnswer two = co_await client->fetch_async("http://127.0.0.1:8080/page");  // suspends
  // [end]
}

void routed_http(std::shared_ptr<Router> router, std::unique_ptr<HttpClient> client) {
  // [cohort/provider/http/http_client.h]
  auto page = router->call([&](const Attempt& attempt) {
    return require_success(client->fetch(HttpRequest(url_of(attempt.provider)).with_deadline(attempt.deadline)));
  });
  // [end]
}

void http_message(std::unique_ptr<HttpClient> client, const Attempt& attempt, std::string url, std::string text) {
  // [cohort/provider/http/http_message.h]
  auto page = client->fetch(HttpRequest(url).with_deadline(attempt.deadline));
  auto made = client->fetch(HttpRequest("POST", url).with_header("Content-Type", "application/json").with_body(text));
  // [end]
}

struct PageRequest {
  int user_id = 0;
};
struct User {};
struct Cart {};
struct Offers {};
Result<User> fetch_user(int id);
Result<Cart> fetch_cart(const User& user);
Result<Offers> fetch_offers(const User& user, const Cart* cart);
std::string render(const User& user, const Cart* cart);

void graph() {
  Executor& executor = some_executor();
  // [cohort/graph/graph.h]
  GraphBuilder<PageRequest> page;
  auto user = page.node("user", [](const PageRequest& request) { return fetch_user(request.user_id); });
  auto cart = page.node(
                      "cart", [](const User& user) { return fetch_cart(user); }, user)
                  .timeout(80ms);
  auto body = page.node("body", render, user, optional(cart)).output();
  Result<Graph<PageRequest>> graph = page.build(executor);
  // [end]
  // [cohort/graph/graph_node.h]
  auto offers =
      page.node("offers", fetch_offers, user, optional(cart)).timeout(50ms).retries(1).otherwise(Offers{}).output();
  // [end]
}

void batch() {
  // [cohort/task/executor.h]
  std::vector<GroupTask<int>> tasks;
  tasks.emplace_back("vip", "task-1", [] { return 42; });
  // [end]
}

void group_token() {
  Executor& executor = some_executor();
  const auto decode = [] {};
  // [cohort/task/group_token.h]
  GroupToken token("session-7/audio");
  executor.submit(token, "chunk-1", decode);
  executor.close_group(token);  // Cancels what came with this token; a late submit with it is rejected.
  // [end]
}

Task<void> promise() {
  // [cohort/task/promise.h]
  Promise<int> promise("answer", [] { /* somebody called cancel() on a handle */ });
  TaskHandle<int> handle = promise.handle();
  std::thread other([promise = std::move(promise)]() mutable { promise.settle(42); });
  TaskResult<int> answer = co_await handle;
  // [end]
}

Task<void> sleep() {
  // [cohort/task/sleep.h]
  while (co_await sleep_unless_stopped(1s)) poll();
  // [end]
}

// [cohort/task/task.h]
Task<int> fetch_both(Executor& executor) {
  TaskHandle<int> a = executor.submit("db", "a", read_a);
  co_await sleep_for(10ms);             // keeps its permits
  TaskResult<int> result = co_await a;  // parks
  co_return result.ok() ? *result.value : 0;
}
// [end]

void task() {
  Executor& executor = some_executor();
  // [cohort/task/task.h]
  executor.submit("api", "both", [&] { return fetch_both(executor); });
  // [end]
}

Result<void> task_scope() {
  Executor& executor = some_executor();
  // [cohort/task/task_scope.h]
  TaskScope scope(executor);
  scope.submit("db", "a", read_a);
  scope.submit("db", "b", read_b);
  if (auto joined = scope.join(); !joined) return joined.error();  // or co_await scope.joined()
  // [end]
  return {};
}

void this_task(std::ifstream file, std::string line) {
  // [cohort/task/this_task.h]
  const BlockingRegion region;
  std::getline(file, line);
  // [end]
}

Task<void> when(std::vector<TaskHandle<int>> handles) {
  // [cohort/task/when.h]
  std::vector<TaskResult<int>> results = co_await when_all(std::move(handles));  // or .await()
  // [end]
}

void group_executor() {
  // [cohort/group/group_executor.h]
  GroupExecutor executor({.groups = {{"db-write", {.max_concurrency = 2}}}, .global_max_in_flight = 256});
  TaskHandle<int> handle = executor.submit("db-write", "task-1", [] { return 42; });
  TaskResult<int> result = handle.await();
  // [end]
}

void postgres_store() {
  // [cohort/backend/postgres/postgres_store.h]
  auto store = PostgresStore::open({.url = "postgres://cohort@127.0.0.1/cohort"});
  // [end]
}

void sqlite_store() {
  // [cohort/backend/sqlite/sqlite_store.h]
  Result<std::unique_ptr<SqliteStore>> store = SqliteStore::open({.folder = "cohort-data"});
  // [end]
}

struct Transcript {
  void append(const std::string& text);
};

void session_registry(const SessionId& session, const GroupName& utterance, const std::string& text) {
  Executor& executor = some_executor();
  const auto recognise = [] {};
  // [cohort/session/session_registry.h]
  SessionRegistry<Transcript> sessions({.executor = &executor});
  auto group = sessions.ensure_group(session, utterance);
  executor.submit(group->token, "recognise", recognise);
  sessions.with_group(group->id, [&](Transcript& transcript) { transcript.append(text); });
  auto ended = sessions.end_session(session, "hung up");  // Returns the transcripts and cancels the work.
  // [end]
}

void chain_engine(std::unique_ptr<TaskStore> store) {
  // [cohort/chain/chain_engine.h]
  GroupExecutor executor({.defaults = {.max_concurrency = 4}, .global_max_in_flight = 4});
  PluginRegistry plugins;
  plugins.add("greet", [](StepContext&) { return PluginResult::success({{"greeted", true}}); });
  ChainEngine engine(*store, executor, plugins, {.node = "a"});
  engine.start().await();
  engine.submit({.group = "tenant", .steps = {{.plugin = "greet"}}}).await();
  // [end]
}

Result<void> failpoint() {
  // [cohort/base/failpoint.h]
  if (COHORT_FAILPOINT("store.commit")) return Error{ErrorCode::kUnavailable, "disk full", {}};
  // [end]
  return {};
}

// [cohort/base/ids.h]
struct SessionKind {
  static constexpr std::string_view kName = "session id";
  static constexpr std::size_t kMaxBytes = 256;
};
using SessionId = Id<SessionKind>;
// [end]

void ids(const std::string& text) {
  // [cohort/base/ids.h]
  Result<SessionId> id = SessionId::parse(text);
  // [end]
}

struct Port {};
Result<Port> parse_port(const std::string& text);
void listen(Port port);

Result<void> result(const std::string& text) {
  // [cohort/base/result.h]
  Result<Port> port = parse_port(text);
  if (!port) return port.error();
  listen(*port);
  // [end]
  return {};
}

void manual_executor() {
  // [cohort/testing/manual_executor.h]
  VirtualClock clock;
  ManualExecutor executor(clock, {.defaults = {.max_concurrency = 2}, .threads = 4});
  auto handle = executor.submit("a", "1", [&] {
    executor.spend(10ms);
    return 42;
  });
  executor.advance(10ms);
  EXPECT_TRUE(handle.is_done());
  // [end]
}

void memory_broker(WallClock& clock) {
  // [cohort/testing/memory_broker.h]
  MemoryBroker shared(clock);
  std::unique_ptr<Broker> broker = shared.member();
  // [end]
}

void wait_until(Time time);

void attempts(const StepOptions& options, Time now, Time deadline, Clock& clock, Random& random) {
  // [cohort/step/attempts.h]
  Attempts attempts(options, now, deadline);
  for (;;) {
    Result<Page> page = fetch(attempts.deadline());
    if (page) break;
    std::optional<Time> next = attempts.after_failure(page.error(), clock.now(), random);
    if (!next) break;  // That was the last attempt.
    wait_until(*next);
  }
  // [end]
}

}  // namespace cohort::header_examples
