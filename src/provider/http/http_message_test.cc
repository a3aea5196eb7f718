#include "cohort/provider/http/http_message.h"

#include <gtest/gtest.h>

#include <curl/curl.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(HttpMessageTest, HeadersAreFoundInAnyCase) {
  HttpResponse response;
  response.headers = {{"Content-Type", "text/plain"}, {"X-Id", "1"}, {"x-id", "2"}};
  EXPECT_EQ(response.header("content-type"), "text/plain");
  EXPECT_EQ(response.header("X-ID"), "1");
  EXPECT_EQ(response.header("missing"), "");
}

TEST(HttpMessageTest, AStatusMeansWhatItMeans) {
  const auto type_of = [](int status, std::optional<Duration> retry_after = {}) {
    HttpResponse response;
    response.status = status;
    response.retry_after = retry_after;
    const HttpAnswer answer = require_success(response);
    const Failure* failure = std::get_if<Failure>(&answer);
    return failure == nullptr ? FailureType::kSuccess : failure->type;
  };
  EXPECT_EQ(type_of(204), FailureType::kSuccess);
  EXPECT_EQ(type_of(302), FailureType::kSuccess);
  EXPECT_EQ(type_of(404), FailureType::kHttp4xx);
  EXPECT_EQ(type_of(401), FailureType::kHttpAuth);
  EXPECT_EQ(type_of(403), FailureType::kHttpAuth);
  EXPECT_EQ(type_of(408), FailureType::kTimeout);
  EXPECT_EQ(type_of(429), FailureType::kHttp429);
  EXPECT_EQ(type_of(500), FailureType::kHttp5xx);
  EXPECT_EQ(type_of(503), FailureType::kHttp5xx);
  EXPECT_EQ(type_of(503, 2s), FailureType::kHttp429);
}

TEST(HttpMessageTest, AFailureTellsTheBeginningOfTheBody) {
  HttpResponse response;
  response.status = 500;
  response.body = "line one\nline two" + std::string(1000, '.');
  const HttpAnswer answer = require_success(response);
  const Failure& failure = std::get<Failure>(answer);
  EXPECT_TRUE(failure.error.message.starts_with("HTTP 500: line one line two....")) << failure.error.message;
  EXPECT_LT(failure.error.message.size(), 230U);
  EXPECT_EQ(failure.detail, "HTTP 500") << "what two answers are compared by";
  response.status = 503;
  EXPECT_EQ(std::get<Failure>(require_success(response)).detail, "")
      << "a gateway's word says nothing about the request";
  const HttpAnswer again = require_success(answer);
  EXPECT_EQ(std::get<Failure>(again).type, FailureType::kHttp5xx) << "a failure stays one";
}

TEST(HttpMessageTest, RetryAfterIsSecondsOrADate) {
  const std::int64_t now = 784'111'777;  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(parse_retry_after("120", now), 120s);
  EXPECT_EQ(parse_retry_after("0", now), 0s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), 30s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:40:00 GMT", now), 0s);
  EXPECT_EQ(parse_retry_after("99999999999999999999999", now), std::chrono::hours(24 * 365));
  for (const char* malformed : {"", "soon", "-1", "1.5", "+3", "12 s", "0x10", "Sunday", "3 apples"}) {
    EXPECT_EQ(parse_retry_after(malformed, now), std::nullopt) << malformed;
  }
}

TEST(HttpMessageTest, EveryResultOfCurlHasAKind) {
  EXPECT_EQ(classify_curl(CURLE_OK), FailureType::kSuccess);
  EXPECT_EQ(classify_curl(CURLE_COULDNT_RESOLVE_HOST), FailureType::kDns);
  EXPECT_EQ(classify_curl(CURLE_COULDNT_CONNECT), FailureType::kConnect);
  EXPECT_EQ(classify_curl(CURLE_RECV_ERROR), FailureType::kConnect);
  EXPECT_EQ(classify_curl(CURLE_PARTIAL_FILE), FailureType::kConnect);
  EXPECT_EQ(classify_curl(CURLE_OPERATION_TIMEDOUT), FailureType::kTimeout);
  EXPECT_EQ(classify_curl(CURLE_PEER_FAILED_VERIFICATION), FailureType::kTls);
  EXPECT_EQ(classify_curl(CURLE_WEIRD_SERVER_REPLY), FailureType::kDecode);
  EXPECT_EQ(classify_curl(CURLE_URL_MALFORMAT), FailureType::kHttp4xx);
  EXPECT_EQ(classify_curl(CURLE_ABORTED_BY_CALLBACK), FailureType::kCancelled);
  EXPECT_EQ(classify_curl(CURLE_OUT_OF_MEMORY), FailureType::kUnknown);
  EXPECT_EQ(classify_curl(-1), FailureType::kUnknown);
}

}  // namespace
}  // namespace cohort
