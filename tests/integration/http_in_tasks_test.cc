// The HTTP client under the group executor: coroutines suspend, plain tasks park, and who runs out of time gives up.

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "provider/http/scripted_server_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Connection = ScriptedServer::Connection;

// Answers only when `expected` requests are there at the same time.
class Gathering {
 public:
  explicit Gathering(int expected) : left_(expected) {}
  void arrive() {
    MutexLock lock(mutex_);
    if (--left_ == 0) all_here_.notify_all();
    while (left_ > 0) all_here_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar all_here_;
  int left_ COHORT_GUARDED_BY(mutex_);
};

TEST(HttpInTasksTest, ManyCoroutinesWaitOnFewThreads) {
  constexpr int kCalls = 40;
  Gathering gathering(kCalls);
  ScriptedServer server([&](Connection& connection, const std::string&) {
    gathering.arrive();
    connection.answer("200 OK", "x");
    return true;
  });
  auto client = std::move(*HttpClient::make({.timeout = 1min}));
  GroupExecutor executor({.defaults = {.max_concurrency = 2}, .threads = 2});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < kCalls; ++i) {
    handles.push_back(executor.submit("upstream", "call", [&]() -> Task<int> {
      const HttpAnswer answer = co_await client->fetch_async(HttpRequest(server.url()));
      co_return std::holds_alternative<HttpResponse>(answer) ? std::get<HttpResponse>(answer).status : -1;
    }));
  }
  for (const auto& each : handles) EXPECT_EQ(each.await().value, 200);
}

TEST(HttpInTasksTest, PlainTasksParkToo) {
  constexpr int kCalls = 8;
  Gathering gathering(kCalls);
  ScriptedServer server([&](Connection& connection, const std::string&) {
    gathering.arrive();
    connection.answer("200 OK", "x");
    return true;
  });
  auto client = std::move(*HttpClient::make({.timeout = 1min}));
  GroupExecutor executor({.defaults = {.max_concurrency = 1}, .threads = 1});
  std::vector<TaskHandle<bool>> handles;
  for (int i = 0; i < kCalls; ++i) {
    handles.push_back(executor.submit("upstream", "call", [&] {
      return std::holds_alternative<HttpResponse>(client->fetch(HttpRequest(server.url())));
    }));
  }
  for (const auto& each : handles) EXPECT_EQ(each.await().value, true);
}

TEST(HttpInTasksTest, ATaskThatRunsOutOfTimeGivesItsCallUp) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.fall_silent();
    return false;
  });
  auto client = std::move(*HttpClient::make({.timeout = 1min}));
  std::atomic<int> timed_out{0};
  const auto count = [&](const HttpAnswer& answer) {
    const Failure* failure = std::get_if<Failure>(&answer);
    if (failure != nullptr && failure->type == FailureType::kTimeout) ++timed_out;
  };
  {
    GroupExecutor executor({.defaults = {.max_concurrency = 4}});
    const auto plain =
        executor.submit("g", "plain", [&] { count(client->fetch(HttpRequest(server.url()))); }, {.run_timeout = 20ms});
    const auto coroutine = executor.submit(
        "g", "coroutine", [&]() -> Task<> { count(co_await client->fetch_async(HttpRequest(server.url()))); },
        {.run_timeout = 20ms});
    EXPECT_EQ(plain.await().status, TaskStatus::kTimedOutRunning);
    EXPECT_EQ(coroutine.await().status, TaskStatus::kTimedOutRunning);
  }  // Waits for the bodies, which do not wait a minute.
  EXPECT_EQ(timed_out, 2);
  while (client->stats().in_flight != 0) std::this_thread::yield();
}

TEST(HttpInTasksTest, ARouterCallsInACoroutine) {
  const RefusingPort dead;
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.answer("200 OK", "page");
    return true;
  });
  auto client = std::move(*HttpClient::make());
  auto router = std::move(*Router::make({{.name = "dead"}, {.name = "alive"}}));
  GroupExecutor executor({.defaults = {.max_concurrency = 4}});
  for (int i = 0; i < 10; ++i) {
    const auto result = executor.submit("g", "page", [&]() -> Task<std::string> {
      auto page = co_await router->call_async([&](const Attempt& attempt) -> Task<HttpAnswer> {
        const std::string url = attempt.provider == "dead" ? dead.url() : server.url();
        co_return require_success(co_await client->fetch_async(HttpRequest(url).with_deadline(attempt.deadline)));
      });
      co_return page.result.ok() ? page.result->body : page.result.error().message;
    });
    EXPECT_EQ(result.await().value, "page");
  }
}

}  // namespace
}  // namespace cohort
