#include "admin/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "admin/raw_client_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    auto server = HttpServer::start(std::move(options), [this](ServerRequest request, Respond respond) {
      if (request.target.segments.front() == "later") {
        const std::lock_guard lock(mutex_);
        later_.push_back(std::make_unique<Respond>(std::move(respond)));
        return;
      }
      if (request.target.segments.front() == "dropped") return;
      if (request.target.segments.front() == "stream") {
        return respond({.type = "text/event-stream", .stream = stream_});
      }
      respond({.body = request.method + " " + request.body});
    });
    ASSERT_TRUE(server) << server.error();
    server_ = *std::move(server);
  }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }

  // Says something until it is closed.
  class Endless final : public BodyStream {
   public:
    void next(Function<void(std::optional<std::string>)> ready) override {
      if (closed) return ready(std::nullopt);
      ready(std::string(64U << 10U, 'x'));
    }
    void close() override { closed = true; }
    std::atomic<bool> closed{false};
  };

  std::shared_ptr<Endless> stream_ = std::make_shared<Endless>();
  std::mutex mutex_;
  std::vector<std::unique_ptr<Respond>> later_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AConnectionCarriesManyRequests) {
  start();
  RawClient client(port());
  EXPECT_EQ(RawClient::body_of(client.ask("GET", "/")), "GET ");
  EXPECT_EQ(RawClient::body_of(client.ask("POST", "/", "{}")), "POST {}");
  client.send(RawClient::request("GET", "/a") + RawClient::request("GET", "/b"));
  EXPECT_EQ(RawClient::status_of(client.read_response()), 200);
  EXPECT_EQ(RawClient::status_of(client.read_response()), 200);
}

TEST_F(HttpServerTest, ARequestMayComeByteByByte) {
  start();
  RawClient client(port());
  for (const char c : RawClient::request("POST", "/", "{\"a\":1}")) client.send(std::string(1, c));
  EXPECT_EQ(RawClient::body_of(client.read_response()), "POST {\"a\":1}");
}

TEST_F(HttpServerTest, WhatIsOverALimitIsToldSo) {
  start({.max_body = 1024, .max_header = 2048});
  RawClient body(port());
  EXPECT_EQ(RawClient::status_of(body.ask("POST", "/", std::string(1025, '1'))), 413);
  RawClient head(port());
  head.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(4096, 'x') + "\r\n\r\n");
  EXPECT_EQ(RawClient::status_of(head.read_response()), 431);
  RawClient chunked(port());
  chunked.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("100\r\n" + std::string(256, '1') + "\r\n");
  EXPECT_EQ(RawClient::status_of(chunked.read_response()), 413);
}

TEST_F(HttpServerTest, WhatIsNoRequestEndsItsConnectionOnly) {
  start();
  for (const char* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "\x16\x03\x01\x02", "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    RawClient client(port());
    client.send(bytes);
    client.finish_sending();
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.empty() || RawClient::status_of(answer) == 400) << bytes << answer;
  }
  RawClient after(port());
  EXPECT_EQ(RawClient::status_of(after.ask("GET", "/")), 200);
}

TEST_F(HttpServerTest, StrangersAreRefusedBeforeTheHandler) {
  start();
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(RawClient::status_of(client.read_response()), 403);
  client.send("GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(RawClient::status_of(client.read_response()), 400);
  EXPECT_EQ(server_->stats().refused, 2U);
}

TEST_F(HttpServerTest, ASlowRequestIsGivenUp) {
  start({.request_timeout = 50ms});
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: loc");
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.empty() || RawClient::status_of(answer) == 408) << answer;
}

TEST_F(HttpServerTest, AnIdleConnectionIsEnded) {
  start({.idle_timeout = 50ms});
  RawClient client(port());
  EXPECT_EQ(RawClient::status_of(client.ask("GET", "/")), 200);
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(HttpServerTest, OverTheLimitTheLongestIdleConnectionGoes) {
  start({.max_connections = 2});
  RawClient first(port());
  EXPECT_EQ(RawClient::status_of(first.ask("GET", "/")), 200);
  RawClient second(port());
  EXPECT_EQ(RawClient::status_of(second.ask("GET", "/")), 200);
  RawClient third(port());
  EXPECT_EQ(RawClient::status_of(third.ask("GET", "/")), 200);
  EXPECT_EQ(server_->stats().turned_away, 0U);
  EXPECT_EQ(first.read_all(), "") << "it was idle for the longest time";
  EXPECT_EQ(RawClient::status_of(second.ask("GET", "/")), 200);
}

// What one reader takes for a body, another takes for a request.
TEST_F(HttpServerTest, AnUnknownTransferEncodingEndsTheConnection) {
  start();
  for (const char* header : {"Transfer-Encoding: xchunked", "Transfer-Encoding: gzip, chunked",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                             "Transfer-Encoding: chunked\r\nContent-Length: 5"}) {
    RawClient client(port());
    client.send(std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n") + header +
                "\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400")) << header << ": " << answer;
    EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << header << ": the second request was answered";
  }
}

TEST_F(HttpServerTest, AnAnswerMayComeLaterFromAnotherThread) {
  start();
  RawClient client(port());
  client.send(RawClient::request("GET", "/later"));
  std::thread([&] {
    for (;;) {
      const std::lock_guard lock(mutex_);
      if (later_.empty()) continue;
      (*later_.front())({.body = "at last"});
      return;
    }
  }).join();
  EXPECT_EQ(RawClient::body_of(client.read_response()), "at last");
}

TEST_F(HttpServerTest, WhoForgetsToAnswerAnswersFiveHundred) {
  start();
  RawClient client(port());
  EXPECT_EQ(RawClient::status_of(client.ask("GET", "/dropped")), 500);
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadIsDropped) {
  start({.write_timeout = 100ms});
  RawClient client(port(), 4096);
  client.send(RawClient::request("GET", "/stream"));
  while (!stream_->closed) std::this_thread::yield();
  EXPECT_NE(client.read_all(), "");
}

TEST_F(HttpServerTest, ItsEndEndsStreamsAndConnections) {
  start();
  RawClient idle(port());
  EXPECT_EQ(RawClient::status_of(idle.ask("GET", "/")), 200);
  RawClient reader(port());
  reader.send(RawClient::request("GET", "/stream"));
  EXPECT_NE(reader.read_until("\r\n\r\n"), "");
  server_.reset();
  EXPECT_TRUE(stream_->closed);
  EXPECT_EQ(idle.read_all(), "");
  static_cast<void>(reader.read_all());
}

TEST_F(HttpServerTest, WhoGoesOnAskingCannotKeepItFromEnding) {
  start();
  std::string many;
  for (int i = 0; i < 2000; ++i) many += RawClient::request("GET", "/");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send(many);
  }
  EXPECT_EQ(RawClient::status_of(clients.front()->read_response()), 200);
  server_.reset();
}

TEST_F(HttpServerTest, AReaderThatGoesAwayEndsItsStream) {
  class Silent final : public BodyStream {
   public:
    void next(Function<void(std::optional<std::string>)> ready) override {
      const std::lock_guard lock(mutex);
      waits = std::move(ready);
    }
    void close() override {
      const std::lock_guard lock(mutex);
      if (waits) std::exchange(waits, nullptr)(std::nullopt);
      closed = true;
    }
    std::mutex mutex;
    Function<void(std::optional<std::string>)> waits;
    std::atomic<bool> closed{false};
  };
  const auto silent = std::make_shared<Silent>();
  auto server = HttpServer::start(
      {}, [&](const ServerRequest&, Respond respond) { respond({.type = "text/event-stream", .stream = silent}); });
  ASSERT_TRUE(server);
  {
    RawClient client((*server)->port());
    client.send(RawClient::request("GET", "/"));
    EXPECT_NE(client.read_until("\r\n\r\n"), "");
  }
  while (!silent->closed) std::this_thread::yield();
}

TEST_F(HttpServerTest, WhoAsksFirstWhetherToSendIsToldTo) {
  start();
  RawClient client(port());
  client.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(RawClient::status_of(client.read_until("\r\n\r\n")), 100);
  client.send("{}");
  EXPECT_EQ(RawClient::body_of(client.read_response()), "POST {}");
}

TEST_F(HttpServerTest, AnAnswerToHeadHasNoBody) {
  start();
  RawClient client(port());
  EXPECT_EQ(RawClient::body_of(client.ask("HEAD", "/")), "");
  EXPECT_EQ(RawClient::body_of(client.ask("GET", "/")), "GET ");
}

TEST_F(HttpServerTest, ATakenPortIsAConflict) {
  start();
  const auto second = HttpServer::start({.port = port()}, [](ServerRequest, Respond) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("choose another port"), std::string::npos);
}

}  // namespace
}  // namespace cohort
