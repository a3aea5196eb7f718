#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/openapi.h"
#include "api/problem.h"
#include "api/routes.h"
#include "api/url.h"
#include "cohort/base/percent.h"

namespace cohort {
namespace {

using Segments = std::vector<std::string>;

TEST(UrlTest, WhatIsEncodedComesBack) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_encode("a/b c%"), "a%2Fb%20c%25");
}

TEST(UrlTest, WhatCannotBeDecodedIsNoTarget) {
  for (const char* text : {"", "v1", "http://x/", "/%", "/%4", "/%zz", "/%00", "/a?b=%", "/a?b=1&b=2"}) {
    EXPECT_FALSE(Target::parse(text)) << text;
  }
}

TEST(UrlTest, ASlashInASegmentIsEncoded) {
  const auto target = Target::parse("/v1/groups/a%2F..%2Fb/?after=1+2&x");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (Segments{"v1", "groups", "a/../b"}));
  EXPECT_EQ(target->query.at("after"), "1 2");
  EXPECT_EQ(target->query.at("x"), "");
}

TEST(RoutesTest, APathHasItsMethodsAndNoOther) {
  const MatchedRoute get = match_route("GET", *Target::parse("/v1/tasks/a%20b"));
  ASSERT_NE(get.route, nullptr);
  EXPECT_EQ(get.route->operation, "get_task");
  EXPECT_EQ(get.arguments, Segments{"a b"});

  const MatchedRoute put = match_route("PUT", *Target::parse("/v1/tasks"));
  EXPECT_EQ(put.route, nullptr);
  EXPECT_EQ(put.allowed, (std::vector<std::string_view>{"POST", "GET", "HEAD"}));

  EXPECT_TRUE(match_route("GET", *Target::parse("/v1/nothing")).allowed.empty());
  EXPECT_TRUE(match_route("GET", *Target::parse("/v1/tasks//cancel")).allowed.empty());
  EXPECT_EQ(match_route("POST", *Target::parse("/v1/dead-letters/replay")).route->operation, "replay_dead_letters");
}

TEST(OpenApiTest, EveryRouteAndEverySchemaIsThere) {
  const auto document = nlohmann::json::parse(openapi_document());
  const auto& schemas = document["components"]["schemas"];
  std::set<std::string_view> operations;
  for (const ApiRoute& route : api_routes()) {
    EXPECT_TRUE(operations.insert(route.operation).second) << route.operation;
    EXPECT_TRUE(document["paths"].contains(std::string(route.path))) << route.path;
    EXPECT_TRUE(route.body.empty() || schemas.contains(std::string(route.body))) << route.body;
    EXPECT_TRUE(route.answer.empty() || schemas.contains(std::string(route.answer))) << route.answer;
  }
}

TEST(ProblemTest, AnErrorIsToldWithItsCodeAndStatus) {
  const auto json = nlohmann::json::parse(Problem::of({ErrorCode::kNotFound, "there is no task 'x\xff'"}).to_json());
  EXPECT_EQ(json["status"], 404);
  EXPECT_EQ(json["title"], "Not Found");
  EXPECT_EQ(json["code"], "not_found");
}

}  // namespace
}  // namespace cohort
