// The HTTP client under the group executor: who waits for an answer keeps his permits and no worker, and who runs out
// of time gives up.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cohort/group/group_executor.h"
#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "cohort/task/promise.h"
#include "cohort/task/when.h"
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

int status_of(const HttpAnswer& answer) {
  return std::holds_alternative<HttpResponse>(answer) ? std::get<HttpResponse>(answer).status : -1;
}

// Both kinds of bodies, one call each.
TaskHandle<int> call(Executor& executor, HttpClient& client, const std::string& url, bool as_coroutine) {
  if (!as_coroutine)
    return executor.submit("upstream", "plain", [&client, url] { return status_of(client.fetch(url)); });
  return executor.submit("upstream", "coroutine", [&client, url]() -> Task<int> {
    const HttpAnswer answer = co_await client.fetch_async(HttpRequest(url));
    co_return status_of(answer);
  });
}

TEST(HttpInTasksTest, ManyCallsWaitOnFewThreads) {
  constexpr int kCalls = 40;
  for (const bool as_coroutine : {true, false}) {
    Gathering gathering(kCalls);
    ScriptedServer server([&](Connection& connection, const std::string&) {
      gathering.arrive();
      connection.answer("200 OK", "x");
      return true;
    });
    auto client = std::move(*HttpClient::make({.timeout = 1min}));
    GroupExecutor executor({.defaults = {.max_concurrency = kCalls}, .threads = 1});
    std::vector<TaskHandle<int>> handles;
    for (int i = 0; i < kCalls; ++i) handles.push_back(call(executor, *client, server.url(), as_coroutine));
    for (const auto& each : handles) EXPECT_EQ(each.await().value, 200);
  }
}

TEST(HttpInTasksTest, AGroupHasNoMoreCallsOpenThanItMayRun) {
  std::atomic<int> open{0};
  std::atomic<int> most{0};
  ScriptedServer server([&](Connection& connection, const std::string&) {
    const int now = ++open;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(2ms);
    --open;
    connection.answer("200 OK", "x");
    return true;
  });
  auto client = std::move(*HttpClient::make({.timeout = 1min}));
  GroupExecutor executor({.defaults = {.max_concurrency = 2}, .threads = 2});
  std::vector<TaskHandle<int>> handles;
  for (int i = 0; i < 20; ++i) handles.push_back(call(executor, *client, server.url(), i % 2 == 0));
  for (const auto& each : handles) EXPECT_EQ(each.await().value, 200);
  EXPECT_LE(most, 2);
}

TEST(HttpInTasksTest, ATaskThatRunsOutOfTimeGivesItsCallUp) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.fall_silent();
    return false;
  });
  auto client = std::move(*HttpClient::make({.timeout = 1min}));
  std::atomic<int> given_up{0};
  const auto count = [&](const HttpAnswer& answer) {
    const Failure* failure = std::get_if<Failure>(&answer);
    if (failure != nullptr && failure->type == FailureType::kTimeout && failure->error.code == ErrorCode::kTimedOut) {
      ++given_up;
    }
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
  EXPECT_EQ(given_up, 2);
  while (client->stats().in_flight != 0) std::this_thread::yield();
}

TEST(HttpInTasksTest, WhoHasNoTimeLeftBlamesNobody) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.answer("200 OK", "page");
    return true;
  });
  auto client = std::move(*HttpClient::make());
  auto router = std::move(*Router::make({{.name = "a"}, {.name = "b"}, {.name = "c"}}));
  {
    GroupExecutor executor({.defaults = {.max_concurrency = 8}});
    for (int i = 0; i < 8; ++i) {
      executor.submit(
          "g", "late",
          [&](const std::stop_token& stop) {
            while (!stop.stop_requested()) std::this_thread::yield();
            static_cast<void>(router->call([&](const Attempt& attempt) {
              return require_success(client->fetch(HttpRequest(server.url()).with_deadline(attempt.deadline)));
            }));
          },
          {.run_timeout = 1ms});
    }
  }
  for (const ProviderStats& stats : router->stats()) {
    EXPECT_EQ(stats.breaker.state, BreakerState::kClosed);
    EXPECT_EQ(stats.breaker.window.half_errors, 0U);
  }
}

TEST(HttpInTasksTest, ATasksTimeOutIsNotACancel) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.fall_silent();
    return false;
  });
  auto client = std::move(*HttpClient::make());
  const auto router = Router::make({{.name = "hung"}}).value();
  GroupExecutor executor;
  const auto body = [&] {
    static_cast<void>(router->call([&](const Attempt& attempt) {
      return require_success(client->fetch(HttpRequest(server.url()).with_deadline(attempt.deadline)));
    }));
  };
  // (On a busy machine the time of a call may be over before it was sent, which counts nowhere.)
  int calls = 0;
  while (router->provider(0).breaker().state() == BreakerState::kClosed && ++calls < 1000) {
    const auto task = executor.submit("g", "t", body, {.run_timeout = 20ms});
    EXPECT_EQ(task.await().status, TaskStatus::kTimedOutRunning);
    while (executor.group_stats("g")->overrunning != 0) std::this_thread::yield();
  }
  EXPECT_EQ(router->provider(0).stats().cut_off, 10U);
  EXPECT_EQ(router->provider(0).breaker().state(), BreakerState::kOpen);
}

TEST(HttpInTasksTest, AnExecutorsEndDoesNotWaitForAPromise) {
  Promise<int> promise;
  auto executor = std::make_unique<GroupExecutor>();
  const auto task = executor->submit("g", "t", [] { return 1; });
  std::thread waiting([both = when_all(task, promise.handle())] { EXPECT_EQ(both.await().size(), 2U); });
  executor.reset();
  promise.settle(2);
  waiting.join();
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
