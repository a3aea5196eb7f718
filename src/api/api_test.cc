#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/body_json.h"
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

TEST(RoutesTest, APathIsMadeOfItsArguments) {
  const auto path = [](Operation operation, const std::string& argument) { return path_of(operation, {&argument, 1}); };
  EXPECT_EQ(path(Operation::kGetTask, "a b/c?d#\xC3\xA9"), "/v1/tasks/a%20b%2Fc%3Fd%23%C3%A9");
  EXPECT_EQ(path(Operation::kPauseGroup, ".."), "/v1/groups/%2E%2E/pause");
  EXPECT_EQ(path(Operation::kGetDeadLetter, "a.b-c_d~"), "/v1/dead-letters/a.b-c_d~");
  EXPECT_EQ(path_of(Operation::kListTasks), "/v1/tasks");
}

TEST(RoutesTest, TheTableIsInTheOrderOfTheRoutes) {
  for (const ApiRoute& route : api_routes()) EXPECT_EQ(&api_route(route.id), &route) << route.operation;
}

TEST(BodiesTest, ABodyIsReadAsItIsWritten) {
  body::ReplayFilter filter{
      .group = "a", .state = "poison", .limit = 5, .deadline = std::chrono::minutes(90), .dry_run = true};
  const nlohmann::json json = to_json_body(filter);
  EXPECT_EQ(json,
            nlohmann::json::parse(R"({"group":"a","state":"poison","limit":5,"deadline":"1h30m","dry_run":true})"));
  const auto read = body_from_json<body::ReplayFilter>(json);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_body(*read), json);
}

TEST(BodiesTest, WhatBreaksARuleIsNamed) {
  const auto wrong = [](const char* text) {
    return body_from_json<body::ReplayFilter>(nlohmann::json::parse(text)).error().message;
  };
  EXPECT_EQ(wrong(R"({"limit": 0})"), "'limit' must be a whole number from 1 to 1000");
  EXPECT_EQ(wrong(R"({"limit": 1.5})"), "'limit' must be a whole number from 1 to 1000");
  EXPECT_EQ(wrong(R"({"state": "ready"})"), "'state' must be 'failed', 'expired' or 'poison'");
  EXPECT_EQ(wrong(R"({"deadline": "0s"})"), "'deadline' must be a duration such as \"30s\" or \"1h\"");
  EXPECT_EQ(wrong(R"({"dry_run": 1})"), "'dry_run' must be true or false");
  EXPECT_EQ(wrong(R"({"gruop": "a"})"),
            "unknown key 'gruop'; known are: group, state, plugin, limit, cursor, deadline, dry_run");
  EXPECT_TRUE(body_from_json<body::Replay>(nlohmann::json::parse(R"({"from_step": 2.0})")));
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
