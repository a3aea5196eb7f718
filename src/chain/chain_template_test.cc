#include "cohort/chain/chain_template.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using nlohmann::json;
using Type = ChainParameter::Type;

ChainTemplate thumbnails() {
  ChainTemplate chain;
  chain.parameters["width"] = {.type = Type::kInteger, .initial = 200, .minimum = 1, .maximum = 4000};
  chain.parameters["format"] = {.type = Type::kString, .initial = "jpg", .one_of = {"jpg", "png"}};
  chain.parameters["to"] = {.type = Type::kString};
  chain.steps = {{.plugin = "sha256"},
                 {.plugin = "exec",
                  .parameters = R"({"size": "${width}", "name": "thumb-${width}.${format}", "deep": [{"to": "${to}"}],
                                    "kept": "$${width} costs 5$"})"}};
  return chain;
}

json parameters_of(const ChainTemplate& chain, const json& given) {
  const auto expanded = expand(chain, given);
  EXPECT_TRUE(expanded) << expanded.error().message;
  return expanded ? json::parse(expanded->steps.at(1).parameters) : json();
}

std::string refusal(const json& given) {
  const auto steps = expand(thumbnails(), given);
  return steps ? "accepted" : steps.error().message;
}

TEST(ChainTemplateTest, ValuesAndDefaultsArePutIn) {
  EXPECT_TRUE(check(thumbnails()));
  EXPECT_EQ(parameters_of(thumbnails(), {{"to", "a"}, {"width", 300}}),
            json({{"size", 300}, {"name", "thumb-300.jpg"}, {"deep", {{{"to", "a"}}}}, {"kept", "${width} costs 5$"}}));
}

TEST(ChainTemplateTest, AValueMayBeGivenAsText) {
  EXPECT_EQ(parameters_of(thumbnails(), {{"to", "7"}, {"width", "300"}})["size"], 300);
  EXPECT_EQ(parameters_of(thumbnails(), {{"to", "7"}})["deep"][0]["to"], "7") << "a text stays a text";
  EXPECT_EQ(expand(thumbnails(), {{"to", "7"}, {"width", "300"}})->given, json({{"to", "7"}, {"width", 300}}))
      << "without the defaults";
}

TEST(ChainTemplateTest, WhatAValueHoldsIsNotReplacedAgain) {
  EXPECT_EQ(parameters_of(thumbnails(), {{"to", "${width}"}})["deep"][0]["to"], "${width}");
}

TEST(ChainTemplateTest, WrongValuesAreRefusedByName) {
  EXPECT_EQ(refusal({{"width", 5}}), "the parameter 'to' of the chain is missing; it has no default");
  EXPECT_EQ(refusal({{"to", "a"}, {"widht", 5}}), "the chain has no parameter 'widht'; it has: format, to, width");
  EXPECT_EQ(refusal({{"to", "a"}, {"width", 0}}), "the parameter 'width' must be at least 1.0; it is 0");
  EXPECT_EQ(refusal({{"to", "a"}, {"width", "big"}}), "the parameter 'width' must be an integer; it is big");
  EXPECT_EQ(refusal({{"to", "a"}, {"width", 1.5}}), "the parameter 'width' must be an integer; it is 1.5");
  EXPECT_EQ(refusal({{"to", 5}}), "the parameter 'to' must be a string; it is 5");
  EXPECT_EQ(refusal({{"to", "a"}, {"format", "gif"}}), "the parameter 'format' must be one of jpg, png; it is gif");
}

TEST(ChainTemplateTest, ABadDefaultIsAnErrorOfTheTask) {
  ChainTemplate chain = thumbnails();
  chain.parameters["width"].initial = "wide";
  EXPECT_FALSE(expand(chain, {{"to", "a"}}));
}

TEST(ChainTemplateTest, AMistakeInTheChainIsFoundBeforeItIsUsed) {
  const auto problem = [](auto&& change) {
    ChainTemplate chain = thumbnails();
    change(chain);
    const auto good = check(chain);
    return good ? "none" : good.error().message;
  };
  EXPECT_EQ(problem([](ChainTemplate& chain) { chain.parameters.erase("format"); }),
            "step 2 ('exec'): 'thumb-${width}.${format}' names 'format', which is no parameter of the chain");
  EXPECT_EQ(problem([](ChainTemplate& chain) { chain.steps[1].parameters = R"({"a": "${width"})"; }),
            "step 2 ('exec'): '${width' has a ${ that no } ends; write $${ for the text ${");
  EXPECT_EQ(problem([](ChainTemplate& chain) { chain.parameters["width"].initial = 5000; }),
            "the parameter 'width' must be at most 4000.0; it is 5000, which is its default");
  EXPECT_EQ(problem([](ChainTemplate& chain) { chain.parameters["format"].minimum = 1; }),
            "the parameter 'format' is no number, so it has no minimum and no maximum");
  EXPECT_EQ(problem([](ChainTemplate& chain) { chain.steps.clear(); }), "a chain has at least one step");
}

}  // namespace
}  // namespace cohort
