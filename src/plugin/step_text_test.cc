#include "plugin/step_text.h"

#include <gtest/gtest.h>

#include <string>

#include "cohort/base/percent.h"
#include "plugin/step_test_fixture.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

class StepTextTest : public testing::Test {
 protected:
  [[nodiscard]] std::string filled(std::string_view text, TextEncoding encoding = TextEncoding::kPlain) const {
    Result<std::string> done = fill_in(text, step, encoding);
    return done ? *done : "error: " + done.error().message;
  }

  StepContext step{task_with({{"size", 200}},
                             {{"name", "a b/ü"},
                              {"deep", {{"er", {{"est", "x"}}}}},
                              {"braces", "{task_id}"},
                              {"ok", true},
                              {"long", std::string(1U << 20U, 'l')},
                              {"list", {1, 2}},
                              {"nothing", nullptr}},
                             {{"sum", 1.5}}),
                   {},
                   {}};
};

TEST_F(StepTextTest, PlaceholdersAreFilledIn) {
  EXPECT_EQ(filled("no placeholder"), "no placeholder");
  EXPECT_EQ(filled("{task_id} of {group}: {token}"), "t1 of acme: t1/0");
  EXPECT_EQ(filled("{parameters.size}-{payload.ok}-{context.sum}"), "200-true-1.5");
  EXPECT_EQ(filled("{payload.deep.er.est}"), "x");
  EXPECT_EQ(filled(""), "");
}

TEST_F(StepTextTest, DoubledBracesAreBraces) {
  EXPECT_EQ(filled("{{task_id}}"), "{task_id}");
  EXPECT_EQ(filled("{{{task_id}}}"), "{t1}");
  EXPECT_EQ(filled("}}{{"), "}{");
}

TEST_F(StepTextTest, WhatAValueHoldsIsNotLookedAtAgain) { EXPECT_EQ(filled("{payload.braces}"), "{task_id}"); }

TEST_F(StepTextTest, InAPathOnlyTheValueIsEncoded) {
  EXPECT_EQ(filled("/a b/{payload.name}?x={group}", TextEncoding::kPercent), "/a b/a%20b%2F%C3%BC?x=acme");
}

TEST_F(StepTextTest, UnknownPlaceholdersAndLoneBracesAreRefused) {
  for (const char* each : {"{", "}", "{}", "{task}", "{task_id", "{payload}", "{payload.}", "a } b", "{ task_id}",
                           "{env.HOME}", "{{}", "{task_id}}"}) {
    const Result<void> checked = check_step_text(each);
    ASSERT_FALSE(checked.ok()) << each;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_NE(checked.error().message.find("{task_id}, {group}"), std::string::npos) << checked.error().message;
  }
  EXPECT_TRUE(check_step_text("{{ {payload.x} }} {token}").ok());
}

TEST_F(StepTextTest, AValueThatIsNotThereOrNoTextIsAnError) {
  EXPECT_EQ(filled("{payload.other}"), "error: there is no value for {payload.other}");
  EXPECT_EQ(filled("{payload.name.first}"), "error: there is no value for {payload.name.first}");
  EXPECT_EQ(filled("{payload.deep..est}"), "error: there is no value for {payload.deep..est}");
  for (const char* each : {"{payload.deep}", "{payload.list}", "{payload.nothing}"}) {
    EXPECT_NE(filled(each).find("neither a string nor a number"), std::string::npos) << each;
  }
}

TEST_F(StepTextTest, ManyLongValuesAreTooMuch) {
  EXPECT_EQ(filled("{payload.long}{payload.long}{payload.long}{payload.long}").size(), kMaxFilledBytes);
  EXPECT_NE(filled("{payload.long}{payload.long}{payload.long}{payload.long}.").find("more than"), std::string::npos);
  const Json five = Json::array({"{payload.long}", "{payload.long}", "{payload.long}", "{payload.long}", "{group}"});
  const Result<Json> tree = fill_in_all(five, step);
  ASSERT_FALSE(tree.ok());
  EXPECT_TRUE(tree.error().message.starts_with("[4]: with its values filled in")) << tree.error().message;
}

TEST_F(StepTextTest, StringsOfATreeAreFilledInAndNothingElse) {
  const Json body = {{"{group}", {"{group}", 1, nullptr, {{"deep", "<{task_id}>"}}}}, {"n", 2}};

  const Result<Json> done = fill_in_all(body, step);

  ASSERT_TRUE(done.ok());
  EXPECT_EQ(*done, Json::parse(R"({"{group}": ["acme", 1, null, {"deep": "<t1>"}], "n": 2})"));
}

TEST_F(StepTextTest, ErrorsOfATreeSayWhere) {
  const Json body = {{"list", {"fine", {{"name", "{oops}"}}}}};
  const Result<void> checked = check_step_texts(body);
  ASSERT_FALSE(checked.ok());
  EXPECT_TRUE(checked.error().message.starts_with(".list[1].name: '{oops}'")) << checked.error().message;
}

TEST(PercentTest, DecodesWhatItEncodes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_encode("aZ9-._~ /%"), "aZ9-._~%20%2F%25");
  EXPECT_EQ(percent_decode("%2e%2E"), "..");
  for (const char* each : {"%", "%2", "%zz", "a%2", "%%41"}) EXPECT_EQ(percent_decode(each), std::nullopt) << each;
}

}  // namespace
}  // namespace cohort
