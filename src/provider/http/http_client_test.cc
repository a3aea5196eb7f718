#include "cohort/provider/http/http_client.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cohort/provider/router.h"
#include "provider/http/scripted_server_test_fixture.h"

// Names under .invalid are for the tests: one is not there, one takes until it is let go.
namespace {
std::atomic<bool> slow_names_wait{false};
}
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  const std::string_view name = node != nullptr ? node : "";
  if (name.ends_with(".invalid")) {
    while (name == "slow.invalid" && slow_names_wait.load()) std::this_thread::yield();
    return EAI_NONAME;
  }
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, found);
}

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Connection = ScriptedServer::Connection;

// Long enough to be met only by what never ends.
constexpr Duration kLong = 1min;

std::unique_ptr<HttpClient> client_with(HttpClientOptions options = {}) {
  options.timeout = options.timeout == HttpClientOptions().timeout ? kLong : options.timeout;
  auto made = HttpClient::make(options);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

std::string path_of(const std::string& request) {
  const std::size_t first = request.find(' ') + 1;
  return request.substr(first, request.find(' ', first) - first);
}

// Does what the path says.
bool serve(Connection& connection, const std::string& request) {
  const std::string path = path_of(request);
  if (path == "/ok") {
    connection.answer("200 OK", "hello", "X-Kind: plain\r\n");
    return true;
  }
  if (path == "/echo") {
    connection.answer("200 OK", request);
    return true;
  }
  if (path == "/429") {
    connection.answer("429 Too Many Requests", "slow down", "Retry-After: 7\r\n");
    return true;
  }
  if (path == "/404") {
    connection.answer("404 Not Found", "nothing here");
    return true;
  }
  if (path == "/500") {
    connection.answer("500 Internal Server Error", "it broke");
    return true;
  }
  if (path == "/big") {
    connection.answer("200 OK", std::string(100'000, 'x'));
    return true;
  }
  if (path == "/big-chunked") {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100; ++i) connection.send("3e8\r\n" + std::string(1000, 'x') + "\r\n");
    connection.send("0\r\n\r\n");
    return true;
  }
  if (path == "/redirect") {
    connection.answer("302 Found", "", "Location: /ok\r\n");
    return true;
  }
  if (path == "/headers") {
    connection.answer("200 OK", "", "X-Much: " + std::string(20'000, 'h') + "\r\n");
    return true;
  }
  if (path == "/half") connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  if (path == "/garbage") connection.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
  if (path == "/reset") connection.reset_at_end();
  if (path == "/stall") connection.fall_silent();
  if (path == "/begin-and-stall") {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    connection.fall_silent();
  }
  if (path == "/half-stream") {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
  }
  return false;
}

class HttpClientTest : public testing::Test {
 protected:
  [[nodiscard]] HttpAnswer fetch(const std::string& path) { return client->fetch(HttpRequest(server.url(path))); }
  static FailureType type_of(const HttpAnswer& answer) {
    const Failure* failure = std::get_if<Failure>(&answer);
    return failure == nullptr ? FailureType::kSuccess : failure->type;
  }
  static std::string text_of(const HttpAnswer& answer) { return std::get<Failure>(answer).error.message; }

  ScriptedServer server{serve};
  std::unique_ptr<HttpClient> client = client_with();
};

TEST_F(HttpClientTest, GivesTheAnswer) {
  const HttpAnswer answer = fetch("/ok");
  const HttpResponse& response = std::get<HttpResponse>(answer);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.header("x-kind"), "plain");
  EXPECT_GT(response.latency, Duration::zero());
}

TEST_F(HttpClientTest, SendsMethodHeadersAndBody) {
  const auto echo = [&](HttpRequest request) {
    request.url = server.url("/echo");
    return std::get<HttpResponse>(client->fetch(std::move(request))).body;
  };
  const std::string post =
      echo(HttpRequest("POST", "").with_header("X-A", "1").with_header("X-B", "").with_body("data"));
  EXPECT_TRUE(post.starts_with("POST /echo HTTP/1.1\r\n")) << post;
  EXPECT_NE(post.find("X-A: 1\r\n"), std::string::npos);
  EXPECT_NE(post.find("X-B:\r\n"), std::string::npos);
  EXPECT_TRUE(post.ends_with("\r\n\r\ndata"));
  EXPECT_EQ(post.find("Expect"), std::string::npos);
  EXPECT_TRUE(echo(HttpRequest("PUT", "").with_body("x")).starts_with("PUT "));
  EXPECT_TRUE(echo(HttpRequest("DELETE", "")).starts_with("DELETE "));
}

TEST_F(HttpClientTest, ConnectionsAreUsedAgain) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(std::get<HttpResponse>(fetch("/ok")).reused_connection, i != 0);
  }
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(client->stats().ended, 5U);
  EXPECT_EQ(client->stats().connections, 1U);
}

TEST_F(HttpClientTest, AStatusIsAnAnswerUntilSuccessIsRequired) {
  const HttpAnswer answer = fetch("/429");
  const HttpResponse& response = std::get<HttpResponse>(answer);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.retry_after, 7s);
  const HttpAnswer checked = require_success(answer);
  EXPECT_EQ(type_of(checked), FailureType::kHttp429);
  EXPECT_EQ(std::get<Failure>(checked).retry_after, 7s);
  EXPECT_EQ(type_of(require_success(fetch("/404"))), FailureType::kHttp4xx);
  EXPECT_EQ(type_of(require_success(fetch("/500"))), FailureType::kHttp5xx);
}

TEST_F(HttpClientTest, RefusedIsConnect) {
  const RefusingPort port;
  const HttpAnswer answer = client->fetch(HttpRequest(port.url("/secret?token=1")));
  EXPECT_EQ(type_of(answer), FailureType::kConnect);
  EXPECT_TRUE(text_of(answer).starts_with("GET http://127.0.0.1:")) << text_of(answer);
  EXPECT_EQ(text_of(answer).find("token"), std::string::npos) << "queries may be secret";
}

TEST_F(HttpClientTest, ABrokenConnectionIsConnect) {
  EXPECT_EQ(type_of(fetch("/reset")), FailureType::kConnect);
  EXPECT_EQ(type_of(fetch("/nothing")), FailureType::kConnect) << "closed without a word";
  EXPECT_EQ(type_of(fetch("/half")), FailureType::kConnect);
}

TEST_F(HttpClientTest, SilenceIsTimeout) {
  for (const char* path : {"/stall", "/begin-and-stall"}) {
    const HttpAnswer answer = client->fetch(HttpRequest(server.url(path)).with_timeout(50ms));
    EXPECT_EQ(type_of(answer), FailureType::kTimeout) << path;
    EXPECT_EQ(std::get<Failure>(answer).error.code, ErrorCode::kTimedOut);
  }
  EXPECT_EQ(type_of(client->fetch(HttpRequest(server.url("/stall")).with_deadline(system_clock().now() + 20ms))),
            FailureType::kTimeout);
  EXPECT_EQ(type_of(client->fetch(HttpRequest(server.url("/stall")).with_deadline(system_clock().now() - 1s))),
            FailureType::kLocal)
      << "what was over before it began is nobody's fault";
}

TEST_F(HttpClientTest, AnUnknownNameIsDns) {
  EXPECT_EQ(type_of(client->fetch(HttpRequest("http://nobody.invalid/").with_connect_timeout(5s))), FailureType::kDns);
}

TEST_F(HttpClientTest, ANameThatIsSlowToBeFoundDelaysNobody) {
  slow_names_wait = true;
  const auto stuck = client->send("http://slow.invalid/");
  const HttpAnswer late = client->fetch(HttpRequest("http://slow.invalid/").with_connect_timeout(100ms));
  EXPECT_EQ(type_of(late), FailureType::kDns);
  EXPECT_EQ(type_of(fetch("/ok")), FailureType::kSuccess);
  stuck.cancel();
  EXPECT_EQ(stuck.take().status, TaskStatus::kCancelled) << "without waiting for the name";
  slow_names_wait = false;
}

TEST_F(HttpClientTest, WhatIsNoHttpIsDecode) { EXPECT_EQ(type_of(fetch("/garbage")), FailureType::kDecode); }

TEST_F(HttpClientTest, WhatIsTooLargeIsDecodeAndSaysSo) {
  for (const char* path : {"/big", "/big-chunked"}) {
    const HttpAnswer answer = client->fetch(HttpRequest(server.url(path)).with_max_response_bytes(50'000));
    EXPECT_EQ(type_of(answer), FailureType::kDecode) << path;
  }
  client = client_with({.max_header_bytes = 10'000});
  const HttpAnswer answer = fetch("/headers");
  EXPECT_EQ(type_of(answer), FailureType::kDecode);
  EXPECT_NE(text_of(answer).find("headers are larger"), std::string::npos) << text_of(answer);
}

TEST_F(HttpClientTest, WhatIsTooLargeCanBeToldFromWhatCannotBeRead) {
  const auto small = client_with({.max_response_bytes = 1000});
  const auto detail_of = [](const HttpAnswer& answer) { return std::get<Failure>(answer).detail; };
  EXPECT_EQ(detail_of(small->fetch(HttpRequest(server.url("/big")))), kTooLarge);
  EXPECT_EQ(detail_of(small->fetch(HttpRequest(server.url("/big-chunked")))), kTooLarge);
  EXPECT_EQ(detail_of(small->fetch(HttpRequest(server.url("/garbage")))), "");
}

TEST_F(HttpClientTest, RedirectsAreFollowedOnlyWhereAllowed) {
  EXPECT_EQ(std::get<HttpResponse>(fetch("/redirect")).status, 302);
  client = client_with({.max_redirects = 3});
  const HttpAnswer answer = fetch("/redirect");
  EXPECT_EQ(std::get<HttpResponse>(answer).body, "hello");
  EXPECT_EQ(std::get<HttpResponse>(answer).header("location"), "") << "of the last answer only";
}

TEST_F(HttpClientTest, ARequestThatCannotBeSentIsItsOwnFault) {
  const std::vector<HttpRequest> wrong = {
      HttpRequest("ftp://127.0.0.1/"),
      HttpRequest("file:///etc/passwd"),
      HttpRequest(""),
      HttpRequest("http://"),
      HttpRequest("http://127.0.0.1/\r\nX: 1"),
      HttpRequest("http://127.0.0.1/" + std::string(10'000, 'a')),
      HttpRequest("GET /", server.url()),
      HttpRequest(server.url()).with_header("X", "a\r\nY: b"),
      HttpRequest(server.url()).with_header("X Y", "a"),
  };
  for (const HttpRequest& each : wrong) {
    const HttpAnswer answer = client->fetch(each);
    EXPECT_EQ(type_of(answer), FailureType::kHttp4xx) << each.url;
    EXPECT_EQ(std::get<Failure>(answer).error.code, ErrorCode::kInvalid);
  }
}

TEST_F(HttpClientTest, PrivateAddressesAreNotConnectedToUnlessAllowed) {
  const auto careful = client_with({.max_redirects = 5, .allow_private_addresses = false});
  for (const char* host : {"127.0.0.1", "localhost", "2130706433", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"}) {
    const HttpAnswer answer = careful->fetch(HttpRequest(server.url("/ok", host)));
    EXPECT_EQ(type_of(answer), FailureType::kHttp4xx) << host;
    EXPECT_EQ(std::get<Failure>(answer).error.code, ErrorCode::kInvalid);
    EXPECT_NE(text_of(answer).find("is private; "), std::string::npos) << text_of(answer);
  }
  const HttpAnswer answer = careful->fetch(HttpRequest(server.url("/ok", "127.1")));
  EXPECT_NE(text_of(answer).find("the address 127.0.0.1 of '127."), std::string::npos) << text_of(answer);
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(HttpClientTest, FramingIsTheClientsBusinessAndSecretsStayOutOfMessages) {
  for (const char* name : {"Content-Length", "transfer-encoding", "Connection", "TE", "Upgrade"}) {
    const HttpAnswer answer =
        client->fetch(HttpRequest("POST", server.url("/echo")).with_header(name, "0").with_body("x"));
    EXPECT_EQ(type_of(answer), FailureType::kHttp4xx) << name;
  }
  EXPECT_EQ(type_of(client->fetch(HttpRequest("CONNECT", server.url()))), FailureType::kHttp4xx);
  const HttpAnswer bad = client->fetch("https://user:hunter2@127.0.0.1:99999/x?token=abcdef");
  EXPECT_EQ(text_of(bad).find("hunter2"), std::string::npos) << text_of(bad);
  EXPECT_EQ(text_of(bad).find("abcdef"), std::string::npos);
  const HttpAnswer forged = client->fetch(HttpRequest(server.url()).with_header("X\nforged", "1"));
  EXPECT_EQ(text_of(forged).find('\n'), std::string::npos);
}

TEST_F(HttpClientTest, OnlyWhatTheCallerSaysIsSentAlong) {
  const HttpAnswer answer =
      client->fetch(HttpRequest("PUT", server.url("/echo")).with_body("{}").with_header("X-B", "  "));
  const std::string& seen = std::get<HttpResponse>(answer).body;
  EXPECT_EQ(seen.find("Content-Type"), std::string::npos) << seen;
  EXPECT_NE(seen.find("X-B:"), std::string::npos);
}

TEST_F(HttpClientTest, ALargeResourceMayBeAskedForItsHead) {
  ScriptedServer heads([](Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n");
    return true;
  });
  const HttpAnswer answer = client->fetch(HttpRequest("HEAD", heads.url()));
  EXPECT_EQ(std::get<HttpResponse>(answer).header("content-length"), "50000000");
}

TEST_F(HttpClientTest, ATrailerIsNoStatus) {
  ScriptedServer trailing([](Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHTTP/1.1 500 no: no\r\n\r\n");
    return true;
  });
  EXPECT_EQ(std::get<HttpResponse>(client->fetch(trailing.url())).status, 200);
}

TEST_F(HttpClientTest, TimeThatIsOverIsOver) {
  EXPECT_EQ(type_of(client->fetch(HttpRequest(server.url("/ok")).with_timeout(-1ms))), FailureType::kLocal);
}

TEST_F(HttpClientTest, ManyConnectionsAreKeptUnderLoad) {
  client = client_with({.max_in_flight = 50, .max_idle_connections = 10});
  for (int round = 0; round < 10; ++round) {
    std::vector<TaskHandle<HttpAnswer>> calls;
    for (int i = 0; i < 50; ++i) calls.push_back(client->send(server.url("/ok")));
    for (const auto& each : calls) EXPECT_EQ(type_of(*each.take().value), FailureType::kSuccess);
  }
  EXPECT_LE(server.connections(), 100) << "of 500 calls";
  client = client_with({.max_idle_connections = 0});
  const int before = server.connections();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(type_of(fetch("/ok")), FailureType::kSuccess);
  EXPECT_EQ(server.connections(), before + 3);
}

TEST_F(HttpClientTest, AHandleCanBeCancelled) {
  const auto handle = client->send(HttpRequest(server.url("/stall")));
  handle.cancel();
  EXPECT_EQ(handle.take().status, TaskStatus::kCancelled);
  const auto done = client->send(HttpRequest(server.url("/ok")));
  ASSERT_TRUE(done.await_for(kLong).has_value());
  done.cancel();

  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  const HttpAnswer answer = client->fetch(HttpRequest(server.url("/stall")).with_stop(stop.get_token()));
  EXPECT_EQ(type_of(answer), FailureType::kCancelled);
  stopper.join();
}

TEST_F(HttpClientTest, ItsEndEndsOpenCalls) {
  client = client_with({.max_in_flight = 1});
  const auto open = client->send(HttpRequest(server.url("/stall")));
  const auto waiting = client->send(HttpRequest(server.url("/ok")));
  client.reset();
  EXPECT_EQ(open.take().error->code, ErrorCode::kEnded);
  EXPECT_EQ(waiting.take().error->code, ErrorCode::kEnded);
  open.cancel();
}

TEST_F(HttpClientTest, MoreThanMayBeInFlightWaitAndMoreThanMayWaitAreRefused) {
  client = client_with({.max_in_flight = 2, .max_waiting = 3});
  std::vector<TaskHandle<HttpAnswer>> stalled;
  for (int i = 0; i < 2; ++i) stalled.push_back(client->send(HttpRequest(server.url("/stall"))));
  while (client->stats().in_flight < 2) std::this_thread::yield();
  std::vector<TaskHandle<HttpAnswer>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(client->send(HttpRequest(server.url("/ok"))));
  const HttpAnswer refused = client->fetch(HttpRequest(server.url("/ok")));
  EXPECT_EQ(std::get<Failure>(refused).error.code, ErrorCode::kRejected);
  EXPECT_EQ(type_of(refused), FailureType::kLocal) << "not the provider's fault";
  EXPECT_EQ(client->stats().waiting, 3U);
  for (const auto& each : stalled) each.cancel();
  for (const auto& each : waiting) EXPECT_EQ(type_of(*each.take().value), FailureType::kSuccess);

  stalled.push_back(client->send(HttpRequest(server.url("/stall"))));
  stalled.push_back(client->send(HttpRequest(server.url("/stall"))));
  const HttpAnswer late = client->fetch(HttpRequest(server.url("/ok")).with_timeout(20ms));
  EXPECT_EQ(std::get<Failure>(late).error.code, ErrorCode::kTimedOut) << "in the queue";
  EXPECT_EQ(type_of(late), FailureType::kLocal);
  const auto cancelled = client->send(HttpRequest(server.url("/ok")));
  cancelled.cancel();
  EXPECT_EQ(cancelled.take().status, TaskStatus::kCancelled);
}

TEST(HttpClientOptionsTest, ImpossibleOnesAreRefused) {
  EXPECT_FALSE(HttpClient::make({.proxy = "http://127.0.0.1:1", .allow_private_addresses = false}).ok());
  EXPECT_FALSE(HttpClient::make({.max_in_flight = 0}).ok());
  EXPECT_FALSE(HttpClient::make({.timeout = 0s}).ok());
  EXPECT_EQ(HttpClient::make({.ca_file = "/there/is/none"}).error().code, ErrorCode::kNotFound);
}

// ---- TLS

class HttpsClientTest : public HttpClientTest {
 protected:
  Certificate certificate{"IP:127.0.0.1"};
};

TEST_F(HttpsClientTest, WhoIsTrustedIsAnswered) {
  ScriptedServer secure(serve, &certificate);
  client = client_with({.ca_file = certificate.file()});
  EXPECT_EQ(std::get<HttpResponse>(client->fetch(HttpRequest(secure.url("/ok")))).body, "hello");
}

TEST_F(HttpsClientTest, WhoIsNotTrustedIsTls) {
  ScriptedServer secure(serve, &certificate);
  EXPECT_EQ(type_of(client->fetch(HttpRequest(secure.url("/ok")))), FailureType::kTls)
      << "verification is on by default";
  client = client_with({.verify_tls = false});
  EXPECT_EQ(type_of(client->fetch(HttpRequest(secure.url("/ok")))), FailureType::kSuccess);
}

TEST_F(HttpsClientTest, AnotherNameThanTheCertificateHasIsTls) {
  const Certificate other("DNS:somebody.example");
  ScriptedServer secure(serve, &other);
  client = client_with({.ca_file = other.file()});
  EXPECT_EQ(type_of(client->fetch(HttpRequest(secure.url("/ok")))), FailureType::kTls);
}

TEST_F(HttpsClientTest, AServerWithoutTlsOrSilentInItsMidstIsTls) {
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port()) + "/ok";
  ScriptedServer silent([](Connection& connection, const std::string&) {
    connection.fall_silent();
    return false;
  });
  const std::string silent_url = "https://127.0.0.1:" + std::to_string(silent.port()) + "/";
  EXPECT_EQ(type_of(client->fetch(HttpRequest(silent_url).with_connect_timeout(300ms))), FailureType::kTls);
  // A TLS greeting is no request, so this server waits for its end; the other side gives up.
  EXPECT_EQ(type_of(client->fetch(HttpRequest(url).with_connect_timeout(300ms))), FailureType::kTls);
}

// ---- streams

TEST_F(HttpClientTest, AStreamComesInPieces) {
  std::string got;
  const HttpAnswer answer = client->stream(HttpRequest(server.url("/big-chunked")), [&](std::string_view piece) {
    got += piece;
    return true;
  });
  EXPECT_EQ(std::get<HttpResponse>(answer).status, 200);
  EXPECT_EQ(got, std::string(100'000, 'x'));
}

TEST_F(HttpClientTest, ASlowReaderSlowsTheServerDownAndNobodyElse) {
  std::atomic<std::size_t> sent{0};
  ScriptedServer fire_hose([&](Connection& connection, const std::string&) {
    constexpr int kPieces = 2000;
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kPieces * 10'000) + "\r\n\r\n");
    for (int i = 0; i < kPieces; ++i) {
      connection.send(std::string(10'000, 'x'));
      sent += 10'000;
    }
    return true;
  });
  std::size_t got = 0;
  bool first = true;
  const HttpAnswer answer = client->stream(HttpRequest(fire_hose.url()), [&](std::string_view piece) {
    if (std::exchange(first, false)) {
      EXPECT_EQ(type_of(fetch("/ok")), FailureType::kSuccess) << "others go on meanwhile";
    }
    EXPECT_LE(piece.size(), 600'000U);
    got += piece.size();
    return true;
  });
  EXPECT_EQ(type_of(answer), FailureType::kSuccess);
  EXPECT_EQ(got, sent.load());
}

TEST_F(HttpClientTest, AReaderMayStopAndItsExceptionComesOut) {
  const HttpAnswer stopped =
      client->stream(HttpRequest(server.url("/big-chunked")), [](std::string_view) { return false; });
  EXPECT_EQ(type_of(stopped), FailureType::kCancelled);
  EXPECT_THROW((void)client->stream(HttpRequest(server.url("/big-chunked")),
                                    [](std::string_view) -> bool { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(type_of(fetch("/ok")), FailureType::kSuccess);
}

TEST_F(HttpClientTest, TheBodyOfAFailureIsNotForTheReader) {
  const HttpAnswer answer = client->stream(HttpRequest(server.url("/500")), [](std::string_view) {
    ADD_FAILURE() << "the reader got the body of an error";
    return true;
  });
  EXPECT_EQ(std::get<HttpResponse>(answer).body, "it broke");
}

TEST_F(HttpClientTest, AFirstPieceThatDoesNotComeIsTimeout) {
  const HttpAnswer answer = client->stream(
      HttpRequest(server.url("/stall")), [](std::string_view) { return true; }, system_clock().now() + 20ms);
  EXPECT_EQ(type_of(answer), FailureType::kTimeout);
}

TEST_F(HttpClientTest, ABreakInMidStreamIsReportedWithWhatCame) {
  auto router = std::move(*Router::make({{.name = "only"}, {.name = "other"}}));
  std::string got;
  const Streamed streamed = router->call_stream<std::string>(
      [&](const Attempt& attempt, const auto& emit) -> std::variant<std::monostate, Failure> {
        HttpAnswer answer =
            require_success(client->stream(HttpRequest(server.url("/half-stream")).with_deadline(attempt.deadline),
                                           [&](std::string_view piece) { return emit(std::string(piece)); }));
        if (Failure* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
        return std::monostate();
      },
      [&](const std::string& piece) {
        got += piece;
        return true;
      });
  EXPECT_EQ(streamed.end, RouteEnd::kBroken);
  EXPECT_EQ(streamed.delivered, 1U);
  EXPECT_EQ(got, "first");
}

TEST_F(HttpClientTest, AStreamSurvivesTheEndOfItsClient) {
  ScriptedServer endless([](Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    for (int i = 0; i < 200; ++i) connection.send(std::string(10'000, 'x'));
    connection.fall_silent();
    return false;
  });
  bool first = true;
  const HttpAnswer answer = client->stream(endless.url(), [&](std::string_view) {
    if (std::exchange(first, false)) client.reset();
    return true;
  });
  EXPECT_EQ(std::get<Failure>(answer).error.code, ErrorCode::kEnded);
}

// ---- with the rest

TEST_F(HttpClientTest, ARouterFailsOverByTheKindOfFailure) {
  const RefusingPort dead;
  std::map<std::string, std::string> urls = {{"dead", dead.url("/ok")}, {"alive", server.url("/ok")}};
  auto router = std::move(*Router::make({{.name = "dead"}, {.name = "alive"}}));
  for (int i = 0; i < 20; ++i) {
    const auto page = router->call([&](const Attempt& attempt) {
      return require_success(
          client->fetch(HttpRequest(urls[std::string(attempt.provider)]).with_deadline(attempt.deadline)));
    });
    ASSERT_TRUE(page.result.ok());
    EXPECT_EQ(page.tries.back().provider, "alive");
    EXPECT_EQ(page.tries.front().type, page.tries.size() == 2 ? FailureType::kConnect : FailureType::kSuccess);
  }
  const auto missing = router->call([&](const Attempt&) { return require_success(fetch("/404")); });
  EXPECT_EQ(missing.end, RouteEnd::kNotRetryable);
}

}  // namespace
}  // namespace cohort
