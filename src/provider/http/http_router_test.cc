// What the client and a router make of a server that fails on demand.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "provider/http/scripted_server_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Connection = ScriptedServer::Connection;

class HttpRouterTest : public ::testing::Test {
 protected:
  void make(const RouterOptions& options = {}) { router = Router::make({{.name = "it"}}, options).value(); }
  Routed<HttpResponse> call(const std::string& url, const CallOptions& options = {}) {
    return router->call(
        [&](const Attempt& attempt) {
          return require_success(
              client->fetch(HttpRequest(url).with_deadline(attempt.deadline).with_stop(attempt.stop)));
        },
        options);
  }
  [[nodiscard]] ProviderStats stats() const { return router->stats()[0]; }

  std::unique_ptr<HttpClient> client = std::move(*HttpClient::make());
  std::shared_ptr<Router> router;
};

bool hang(Connection& connection, const std::string&) {
  connection.fall_silent();
  return false;
}

TEST_F(HttpRouterTest, AnAnswerWithACutBodyKeepsItsStatusAndRetryAfter) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 1000\r\n\r\nhalf of it");
    connection.reset_at_end();
    return false;
  });
  const HttpAnswer answer = client->fetch(server.url());
  const HttpResponse& response = std::get<HttpResponse>(answer);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.retry_after, 7s);
  EXPECT_EQ(std::get<Failure>(require_success(answer)).type, FailureType::kHttp429);
  make();
  static_cast<void>(call(server.url()));
  EXPECT_GT(stats().cooling_for, 0s);
}

TEST_F(HttpRouterTest, ASuccessWithACutBodyIsNone) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of it");
    return false;
  });
  EXPECT_EQ(std::get<Failure>(client->fetch(server.url())).type, FailureType::kConnect);
}

TEST_F(HttpRouterTest, AMalformedRetryAfterIsNone) {
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.answer("503 Busy", "", "Retry-After: soon\r\n");
    return true;
  });
  EXPECT_EQ(std::get<HttpResponse>(client->fetch(server.url())).retry_after, std::nullopt);
  EXPECT_EQ(std::get<Failure>(require_success(client->fetch(server.url()))).type, FailureType::kHttp5xx);
}

// A call that has three seconds more would end first if silence were found late.
TEST_F(HttpRouterTest, AStreamThatFallsSilentEndsAtItsLimit) {
  client = std::move(*HttpClient::make({.timeout = 300ms}));
  ScriptedServer server([](Connection& connection, const std::string& request) {
    if (request.starts_with("GET /stream")) {
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst");
    }
    return hang(connection, request);
  });
  const TaskHandle<HttpAnswer> other = client->send(HttpRequest(server.url("/other")).with_timeout(3300ms));
  const HttpAnswer answer = client->stream(server.url("/stream"), [](std::string_view) { return true; });
  EXPECT_EQ(std::get<Failure>(answer).type, FailureType::kTimeout);
  EXPECT_FALSE(other.is_done());
  other.cancel();
}

TEST_F(HttpRouterTest, AServerThatAnswersNobodyIsFoundThoughItsCallersAreImpatient) {
  ScriptedServer server(hang);
  make({.timeout = 10s});
  // (On a busy machine the time of a call may be over before it was sent, which counts nowhere.)
  int calls = 0;
  while (stats().breaker.state == BreakerState::kClosed && ++calls < 1000) {
    static_cast<void>(call(server.url(), CallOptions().with_deadline(system_clock().now() + 20ms)));
  }
  EXPECT_EQ(stats().breaker.state, BreakerState::kOpen);
  EXPECT_EQ(stats().cut_off, 10U);
}

TEST_F(HttpRouterTest, OutOfDescriptorsIsNobodysFault) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  // The sanitizer opens a pipe for every type of object that it sees for the first time.
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own";
#endif
#endif
  ScriptedServer server([](Connection& connection, const std::string&) {
    connection.answer("200 OK", "page");
    return false;
  });
  make();
  const std::string by_name = "http://localhost:" + std::to_string(server.port()) + "/";
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<int> taken;
  while (taken.size() < 64) taken.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit low{static_cast<rlim_t>(taken.back()) + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  for (int i = 0; i < 10; ++i) {
    for (const std::string& url : {server.url(), by_name}) {
      const auto routed = call(url);
      EXPECT_EQ(routed.tries[0].type, FailureType::kLocal) << url << ": " << routed.result.error().message;
    }
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const int each : taken) ::close(each);
  EXPECT_EQ(stats().breaker.window.calls, 0U);
  EXPECT_TRUE(call(server.url()).result.ok());
}

TEST_F(HttpRouterTest, ACancelCountsNowhere) {
  std::stop_source stop;
  ScriptedServer server([&](Connection& connection, const std::string& request) {
    stop.request_stop();
    return hang(connection, request);
  });
  make();
  const auto routed = call(server.url(), CallOptions().with_stop(stop.get_token()));
  EXPECT_EQ(routed.end, RouteEnd::kCancelled);
  EXPECT_EQ(stats().breaker.window.calls, 0U);
  EXPECT_EQ(stats().breaker.cut_off_in_a_row, 0U);
}

TEST_F(HttpRouterTest, AReadersExceptionComesOutAndTheStreamHasSucceeded) {
  ScriptedServer server([](Connection& connection, const std::string& request) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst");
    return hang(connection, request);
  });
  make();
  const auto attempt = [&](const Attempt& one, const auto& emit) -> std::variant<std::monostate, Failure> {
    HttpAnswer answer = client->stream(
        HttpRequest(server.url()).with_stop(one.stop), [&](std::string_view piece) { return emit(std::string(piece)); },
        one.first_chunk_deadline);
    if (Failure* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
    return std::monostate();
  };
  EXPECT_THROW(static_cast<void>(router->call_stream<std::string>(
                   attempt, [](const std::string&) -> bool { throw std::runtime_error("the reader's"); })),
               std::runtime_error);
  EXPECT_EQ(stats().calls[static_cast<std::size_t>(FailureType::kSuccess)], 1U);
  EXPECT_EQ(stats().concurrent, 0U);
}

}  // namespace
}  // namespace cohort
