#include "cohort/plugin/http_plugin.h"

#include <gtest/gtest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "plugin/origin_routers.h"
#include "plugin/step_test_fixture.h"
#include "provider/http/scripted_server_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using Kind = PluginResult::Kind;
using Connection = ScriptedServer::Connection;

constexpr const char* kJsonType = "Content-Type: application/json; charset=utf-8\r\n";

std::string path_of(const std::string& request) {
  const std::size_t first = request.find(' ') + 1;
  return request.substr(first, request.find(' ', first) - first);
}

bool serve(Connection& connection, const std::string& request) {
  const std::string path = path_of(request);
  if (path.starts_with("/status/")) {
    connection.answer(path.substr(8) + " So", "why");
  } else if (path == "/later/429") {
    connection.answer("429 Too Many Requests", "", "Retry-After: 7\r\n");
  } else if (path == "/later/503") {
    connection.answer("503 Service Unavailable", "", "Retry-After: 9999999\r\n");
  } else if (path == "/json") {
    connection.answer("200 OK", R"({"receipt": 17})", kJsonType);
  } else if (path == "/list") {
    connection.answer("200 OK", "[1]", kJsonType);
  } else if (path == "/no-json") {
    connection.answer("200 OK", "{oops", kJsonType);
  } else if (path == "/deep") {
    connection.answer("200 OK", std::string(100, '[') + std::string(100, ']'), kJsonType);
  } else if (path == "/bytes") {
    connection.answer("200 OK", "a\xff\xfe z");
  } else if (path == "/large") {
    connection.answer("200 OK", std::string(3000, 'x'));
  } else {
    connection.answer("200 OK", request);  // Echo.
  }
  return true;
}

class HttpPluginTest : public testing::Test {
 protected:
  static std::shared_ptr<Plugin> make(HttpPluginOptions options) {
    options.max_response = 2000;
    auto made = make_http_plugin(std::move(options));
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *made;
  }
  static HttpPool pool_of(std::vector<std::string> urls) {
    HttpPool pool{.urls = std::move(urls), .timeout = 1min};
    pool.breaker.slow_call_threshold = 1min;
    return pool;
  }

  PluginResult run(Plugin& called, const Json& parameters, std::stop_token stop = {}) {
    StepContext step(task_with(parameters, payload, context), {}, std::move(stop));
    PluginResult result = called.run(step);
    const auto report = step.take_report();
    lines = report ? report->lines : std::vector<std::string>();
    return result;
  }
  PluginResult run(const Json& parameters) { return run(*plugin, parameters); }
  PluginResult get(const std::string& path) { return run({{"pool", "main"}, {"path", path}, {"method", "GET"}}); }
  // The request as the server saw it.
  std::string echo(Json parameters) {
    parameters["pool"] = "main";
    const PluginResult result = run(parameters);
    EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
    return result.kind() == Kind::kSuccess ? result.outputs()["response"]["body"].get<std::string>() : "";
  }
  static std::string body_of(const std::string& request) { return request.substr(request.find("\r\n\r\n") + 4); }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  ScriptedServer server{serve};
  std::shared_ptr<Plugin> plugin = make({.pools = {{"main", pool_of({server.url("/")})}}});
  Json payload = {{"id", "a/b"}, {"up", ".."}, {"line", "x\r\nEvil: 1"}, {"n", 3}};
  Json context = {{"sum", "abc"}};
  std::vector<std::string> lines;
};

TEST_F(HttpPluginTest, TheStepIsTheBodyUnlessItSays) {
  const std::string request = echo({{"path", "/echo"}});

  EXPECT_TRUE(request.starts_with("POST /echo HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(has(request, "\r\nIdempotency-Key: t1/0\r\n")) << request;
  EXPECT_TRUE(has(request, "\r\nContent-Type: application/json\r\n")) << request;
  EXPECT_EQ(Json::parse(body_of(request)),
            (Json{{"task_id", "t1"}, {"group", "acme"}, {"payload", payload}, {"context", context}}));
}

TEST_F(HttpPluginTest, MethodHeadersAndBodyAreSent) {
  const std::string put =
      echo({{"method", "PUT"}, {"path", "/x?y=1"}, {"body", {1, "two"}}, {"headers", {{"X-A", "b"}}}});
  EXPECT_TRUE(put.starts_with("PUT /x?y=1 HTTP/1.1\r\n")) << put;
  EXPECT_TRUE(has(put, "\r\nX-A: b\r\n"));
  EXPECT_EQ(body_of(put), R"([1,"two"])");

  const std::string typed = echo({{"body", "x"}, {"headers", {{"content-type", "application/x"}}}});
  EXPECT_TRUE(has(typed, "\r\ncontent-type: application/x\r\n"));
  EXPECT_FALSE(has(typed, "application/json"));
}

TEST_F(HttpPluginTest, GetAndDeleteHaveNoBodyUnlessGiven) {
  for (const char* method : {"GET", "DELETE"}) {
    const std::string bare = echo({{"method", method}});
    EXPECT_TRUE(bare.starts_with(std::string(method) + " / HTTP/1.1\r\n")) << bare;
    EXPECT_EQ(body_of(bare), "");
    EXPECT_FALSE(has(bare, "Content-Type")) << bare;
    EXPECT_EQ(body_of(echo({{"method", method}, {"body", {{"a", 1}}}})), R"({"a":1})");
  }
}

TEST_F(HttpPluginTest, ValuesAreFilledIn) {
  const std::string request = echo({{"path", "/of/{group}/{payload.id}?sum={context.sum}"},
                                    {"headers", {{"X-Task", "<{task_id}>"}}},
                                    {"body", {{"n", "{payload.n}"}, {"id", "{payload.id}"}}}});
  EXPECT_TRUE(request.starts_with("POST /of/acme/a%2Fb?sum=abc HTTP/1.1\r\n")) << request;
  EXPECT_TRUE(has(request, "\r\nX-Task: <t1>\r\n"));
  EXPECT_EQ(Json::parse(body_of(request)), (Json{{"n", "3"}, {"id", "a/b"}}));
}

TEST_F(HttpPluginTest, AValueCannotBendTheRequest) {
  const auto refused = [&](const Json& parameters, const std::string& place) {
    const PluginResult result = run(parameters);
    EXPECT_EQ(result.kind(), Kind::kFailure);
    EXPECT_TRUE(result.reason().starts_with(place)) << result.reason();
  };
  refused({{"pool", "main"}, {"path", "/users/{payload.up}/admin"}}, "parameters.path: ");
  refused({{"pool", "main"}, {"path", "/users/{payload.line}"}}, "parameters.path: ");
  refused({{"pool", "main"}, {"headers", {{"X-A", "{payload.line}"}}}}, "parameters.headers.X-A: ");
  refused({{"pool", "main"}, {"body", {{"a", {"{payload.none}"}}}}}, "parameters.body.a[0]: ");
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(HttpPluginTest, AnAnswerIsJsonOrText) {
  const auto response = [&](const std::string& path) { return get(path).outputs()["response"]; };
  EXPECT_EQ(response("/json"), Json::parse(R"({"status": 200, "body": {"receipt": 17}})"));
  EXPECT_EQ(response("/list")["body"], Json::array({1}));
  EXPECT_EQ(response("/no-json")["body"], "{oops");
  EXPECT_EQ(response("/deep")["body"], std::string(100, '[') + std::string(100, ']'));
  EXPECT_EQ(response("/bytes")["body"], "a\xEF\xBF\xBD\xEF\xBF\xBD z");
  EXPECT_EQ(response("/status/204")["status"], 204);
}

TEST_F(HttpPluginTest, TheOutputIsWhatTheStepNames) {
  const auto outputs = [&](const std::string& path, const std::string& output) {
    return run({{"pool", "main"}, {"path", path}, {"output", output}});
  };
  EXPECT_EQ(outputs("/json", "paid").outputs()["paid"]["body"]["receipt"], 17);
  EXPECT_EQ(outputs("/json", "").outputs(), Json::parse(R"({"receipt": 17})"));
  EXPECT_EQ(outputs("/list", "").kind(), Kind::kFailure);
  EXPECT_TRUE(has(outputs("/list", "").reason(), "no JSON object"));
}

TEST_F(HttpPluginTest, StatusesDecideWhatBecomesOfTheTask) {
  for (const char* each : {"400", "401", "404", "409", "301", "304"}) {
    const PluginResult result = get(std::string("/status/") + each);
    EXPECT_EQ(result.kind(), Kind::kFailure) << each;
    EXPECT_TRUE(has(result.reason(), std::string("HTTP ") + each)) << result.reason();
  }
  for (const char* each : {"408", "425", "429", "500", "503"}) {
    const PluginResult result = get(std::string("/status/") + each);
    EXPECT_EQ(result.kind(), Kind::kRetry) << each;
    EXPECT_EQ(result.after(), std::nullopt) << each;
  }
}

TEST_F(HttpPluginTest, WhoSaysWhenIsAskedThen) {
  EXPECT_EQ(get("/later/429").after(), 7s);
  const auto other = make({.pools = {{"main", pool_of({server.url()})}}});
  EXPECT_EQ(run(*other, {{"pool", "main"}, {"path", "/later/503"}}).after(), 1h);
}

TEST_F(HttpPluginTest, ExpectedStatusesAreSuccess) {
  const PluginResult result = run({{"pool", "main"}, {"path", "/status/404"}, {"expect", {302, 404}}});
  EXPECT_EQ(result.kind(), Kind::kSuccess);
  EXPECT_EQ(result.outputs()["response"], (Json{{"status", 404}, {"body", "why"}}));
}

TEST_F(HttpPluginTest, APoolFailsOver) {
  const RefusingPort nobody;
  const auto both = make({.pools = {{"both", pool_of({nobody.url("/base/"), server.url("/base")})}}});
  std::size_t tries = 0;
  for (int i = 0; i < 10; ++i) {
    const PluginResult result = run(*both, {{"pool", "both"}, {"path", "/x"}});
    ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
    EXPECT_TRUE(has(result.outputs()["response"]["body"], "POST /base/x HTTP/1.1"));
    tries += lines.size();
  }
  EXPECT_GE(tries, 10U);
}

TEST_F(HttpPluginTest, AnOpenBreakerSaysWhenToComeAgain) {
  const RefusingPort nobody;
  HttpPool pool = pool_of({nobody.url()});
  pool.breaker.consecutive_failure_threshold = 1;
  const auto alone = make({.pools = {{"alone", pool}}});

  const PluginResult first = run(*alone, {{"pool", "alone"}});
  EXPECT_EQ(first.kind(), Kind::kRetry);
  EXPECT_EQ(first.after(), std::nullopt);
  EXPECT_EQ(lines.size(), 1U);
  const PluginResult second = run(*alone, {{"pool", "alone"}});
  EXPECT_EQ(second.kind(), Kind::kRetry);
  ASSERT_TRUE(second.after());
  EXPECT_GT(*second.after(), 0s);
  EXPECT_LE(*second.after(), 6s);
  EXPECT_TRUE(lines.empty());
}

TEST_F(HttpPluginTest, EachHostOfAUrlHasItsOwnBreaker) {
  const ScriptedServer other(serve);
  const auto open = make({.allow_private = true});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(*open, {{"url", server.url("/status/500")}}).after(), std::nullopt);

  const PluginResult refused = run(*open, {{"url", server.url("/json")}});
  const PluginResult passed = run(*open, {{"url", other.url("/json")}});

  EXPECT_EQ(refused.kind(), Kind::kRetry);
  EXPECT_TRUE(refused.after());
  EXPECT_EQ(passed.kind(), Kind::kSuccess);
}

TEST_F(HttpPluginTest, AUrlOfATaskMayNotLeadHome) {
  const std::string port = ":" + std::to_string(server.port());
  for (const std::string host : {"127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"}) {
    const PluginResult result = run({{"url", "http://" + host + port + "/json"}});
    EXPECT_EQ(result.kind(), Kind::kFailure) << host;
    EXPECT_TRUE(has(result.reason(), "is private; ")) << result.reason();
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(HttpPluginTest, AnAnswerThatIsTooLargeFailsTheTaskAndBlamesNobody) {
  const ScriptedServer other(serve);
  const auto both = make({.pools = {{"both", pool_of({server.url(), other.url()})}}});
  for (int i = 0; i < 10; ++i) {
    const PluginResult result = run(*both, {{"pool", "both"}, {"path", "/large"}});
    EXPECT_EQ(result.kind(), Kind::kFailure);
    EXPECT_EQ(lines.size(), 1U);
  }
  EXPECT_EQ(run(*both, {{"pool", "both"}, {"path", "/json"}}).kind(), Kind::kSuccess);
}

TEST_F(HttpPluginTest, EndsWhenItIsAskedTo) {
  std::stop_source stop;
  const ScriptedServer silent([&](Connection& connection, const std::string&) {
    stop.request_stop();
    connection.fall_silent();
    return false;
  });
  const auto open = make({.allow_private = true, .timeout = 1min});
  EXPECT_EQ(run(*open, {{"url", silent.url()}}, stop.get_token()).kind(), Kind::kRetry);
}

TEST_F(HttpPluginTest, TheTimeOfACallIsLimited) {
  const ScriptedServer silent([](Connection& connection, const std::string&) {
    connection.fall_silent();
    return false;
  });
  const auto open = make({.allow_private = true, .timeout = 100ms});
  EXPECT_EQ(run(*open, {{"url", silent.url()}}).kind(), Kind::kRetry);
}

TEST_F(HttpPluginTest, EachTryIsLoggedWithoutWhatMayBeSecret) {
  const auto open = make({.allow_private = true});
  const std::string place = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_EQ(run(*open, {{"url", "http://user:password@" + place + "/json?key=hidden#part"}}).kind(), Kind::kSuccess);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].starts_with("POST http://" + place + "/json 200 in ")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with(" ms"));

  const PluginResult failed = run(*open, {{"url", "http://user:password@" + place + "/status/404?key=hidden"}});
  EXPECT_FALSE(has(failed.reason(), "password") || has(failed.reason(), "hidden")) << failed.reason();

  const RefusingPort nobody;
  const std::string secret = "http://user:password@" + nobody.url("").substr(7);
  const auto alone = make({.pools = {{"alone", pool_of({secret})}}});
  const PluginResult unreachable = run(*alone, {{"pool", "alone"}});
  EXPECT_FALSE(has(unreachable.reason(), "password")) << unreachable.reason();
  EXPECT_TRUE(has(lines.at(0), " connect in ")) << lines[0];
}

TEST_F(HttpPluginTest, BadParametersAreRefusedWithTheirPlace) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {Json::array(), "parameters: "},
      {Json::object(), "parameters: it is either"},
      {{{"pool", "main"}, {"url", "http://x/"}}, "parameters: it is either"},
      {{{"pool", "mian"}}, "parameters.pool: there is no pool 'mian'; there are: main"},
      {{{"pool", ""}}, "parameters.pool: "},
      {{{"pool", 1}}, "parameters.pool: "},
      {{{"url", "ftp://x/"}}, "parameters.url: a URL begins with http"},
      {{{"url", "file:///etc/passwd"}}, "parameters.url: "},
      {{{"url", "http://"}}, "parameters.url: "},
      {{{"url", "http://x/{task_id}"}}, "parameters.url: "},
      {{{"url", "http://x/\r\nEvil: 1"}}, "parameters.url: "},
      {{{"url", "http://x/"}, {"path", "/y"}}, "parameters.path: "},
      {{{"pool", "main"}, {"path", "x"}}, "parameters.path: it begins with '/'"},
      {{{"pool", "main"}, {"path", ".evil.com/x"}}, "parameters.path: "},
      {{{"pool", "main"}, {"path", "/a/../b"}}, "parameters.path: a part"},
      {{{"pool", "main"}, {"path", "/a/%2e%2E"}}, "parameters.path: a part"},
      {{{"pool", "main"}, {"path", "/a/..%2fb"}}, "parameters.path: a part"},
      {{{"pool", "main"}, {"path", "/a/..%5cb"}}, "parameters.path: a part"},
      {{{"pool", "main"}, {"path", "/a#b"}}, "parameters.path: "},
      {{{"pool", "main"}, {"path", "/a b"}}, "parameters.path: "},
      {{{"pool", "main"}, {"path", "/a%0d%0a"}}, "parameters.path: "},
      {{{"pool", "main"}, {"path", "/{oops}"}}, "parameters.path: '{oops}'"},
      {{{"pool", "main"}, {"method", "get"}}, "parameters.method: "},
      {{{"pool", "main"}, {"method", "CONNECT"}}, "parameters.method: "},
      {{{"pool", "main"}, {"headers", {"x"}}}, "parameters.headers: "},
      {{{"pool", "main"}, {"headers", {{"host", "x"}}}}, "parameters.headers.host: "},
      {{{"pool", "main"}, {"headers", {{"Content-Length", "1"}}}}, "parameters.headers.Content-Length: "},
      {{{"pool", "main"}, {"headers", {{"idempotency-key", "1"}}}}, "parameters.headers.idempotency-key: "},
      {{{"pool", "main"}, {"headers", {{"X Y", "1"}}}}, "parameters.headers.X Y: "},
      {{{"pool", "main"}, {"headers", {{"X", "1\r\nY: 2"}}}}, "parameters.headers.X: "},
      {{{"pool", "main"}, {"headers", {{"X", 1}}}}, "parameters.headers.X: "},
      {{{"pool", "main"}, {"body", {{"a", {"{"}}}}}, "parameters.body.a[0]: "},
      {{{"pool", "main"}, {"output", 1}}, "parameters.output: "},
      {{{"pool", "main"}, {"expect", 200}}, "parameters.expect: "},
      {{{"pool", "main"}, {"expect", {99}}}, "parameters.expect: "},
      {{{"pool", "main"}, {"expect", {18446744073709551615U}}}, "parameters.expect: "},
      {{{"pool", "main"}, {"verb", "GET"}}, "parameters.verb: there is no such parameter"},
  };
  for (const auto& [parameters, place] : cases) {
    const Result<void> checked = plugin->check(parameters);
    ASSERT_FALSE(checked.ok()) << parameters;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_TRUE(checked.error().message.starts_with(place)) << parameters << ": " << checked.error().message;
    EXPECT_EQ(run(parameters).kind(), Kind::kFailure) << parameters;
  }
  EXPECT_EQ(server.connections(), 0);
  EXPECT_TRUE(plugin->check({{"pool", "main"}, {"path", "/a/..b/...?x=../.."}}).ok());
  EXPECT_TRUE(plugin->check({{"url", "https://example.com/hook"}}).ok());
}

TEST_F(HttpPluginTest, UrlsMayBeForbidden) {
  const auto strict = make({.allow_urls = false});
  EXPECT_TRUE(has(strict->check({{"url", "https://example.com/"}}).error().message, "may not bring URLs"));
  EXPECT_TRUE(has(strict->check({{"pool", "main"}}).error().message, "there are none"));
}

TEST_F(HttpPluginTest, PoolsThatCannotBeAreRefused) {
  const auto text_of = [](HttpPool pool) {
    const auto made = make_http_plugin({.pools = {{"p", std::move(pool)}}});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(text_of({.urls = {"http://user:secret@a/b/"}}), "");
  EXPECT_TRUE(has(text_of({}), "HTTP pool 'p': it has at least one url, and 64 with its backup_urls at most"));
  EXPECT_TRUE(has(text_of({.urls = {"http://a", "ftp://b"}}), "urls[1]: "));
  EXPECT_TRUE(has(text_of({.urls = {"http://a/?x"}}), "urls[0]: "));
  EXPECT_TRUE(has(text_of({.urls = {"http://a"}, .backup_urls = {"ftp://b"}}), "backup_urls[0]: "));
  EXPECT_TRUE(has(text_of({.urls = {"http://a", "http://A:80/"}}), "two providers"));
  EXPECT_TRUE(has(text_of({.urls = {"http://a"}, .timeout = 0s}), "timeout"));
  EXPECT_TRUE(has(text_of({.urls = {"http://a"}, .max_attempts = 0}), "max_attempts"));
  EXPECT_TRUE(has(text_of({.urls = {"http://a"}, .max_concurrent = 0}), "max_concurrent"));
  EXPECT_TRUE(has(text_of({.urls = {"http://a"}, .breaker = {.min_calls = 0}}), "min_calls"));
  EXPECT_FALSE(make_http_plugin({.max_response = 0}).ok());
  EXPECT_FALSE(make_http_plugin({.max_response = (16U << 20U) + 1}).ok());
}

TEST(OriginRoutersTest, TheOneNotCalledForLongestIsForgotten) {
  OriginRouters routers({}, 2);
  const auto a = *routers.find("a");
  const auto b = *routers.find("b");
  EXPECT_EQ(*routers.find("a"), a);

  const auto c = *routers.find("c");

  EXPECT_EQ(routers.size(), 2U);
  EXPECT_EQ(*routers.find("a"), a);
  EXPECT_EQ(*routers.find("c"), c);
  EXPECT_NE(*routers.find("b"), b);
  EXPECT_EQ(routers.size(), 2U);
}

}  // namespace
}  // namespace cohort
