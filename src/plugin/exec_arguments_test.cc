#include "plugin/exec_arguments.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

Result<Words> expand(const Words& templates, const json& step) {
  const Result<ExecArguments> parsed = ExecArguments::parse(templates);
  return parsed ? parsed->expand(step) : parsed.error();
}

std::string error_of(const Words& templates, const json& step = json::object()) {
  const Result<Words> expanded = expand(templates, step);
  return expanded ? "" : expanded.error().message;
}

TEST(ExecArgumentsTest, ValuesTakeTheirPlaces) {
  const json step = {{"file", "/a b"},
                     {"attempt", 2},
                     {"parameters", {{"size", -3}, {"deep", {{"er", true}}}, {"ratio", 0.5}}},
                     {"payload", {{"name", "x"}}}};

  const Result<Words> expanded = expand({"-f", "{file}", "--size={parameters.size}", "{attempt}{payload.name}",
                                         "{parameters.deep.er}", "{parameters.ratio}", ""},
                                        step);

  ASSERT_TRUE(expanded.ok()) << expanded.error();
  EXPECT_EQ(*expanded, (Words{"-f", "/a b", "--size=-3", "2x", "true", "0.5", ""}));
}

TEST(ExecArgumentsTest, DoubledBracesAreBraces) {
  const Result<Words> expanded = expand({"{{}}", "{{file}}", "{{{file}}}", "a}}b"}, {{"file", "f"}});

  ASSERT_TRUE(expanded.ok()) << expanded.error();
  EXPECT_EQ(*expanded, (Words{"{}", "{file}", "{f}", "a}b"}));
}

TEST(ExecArgumentsTest, WhatNoStepHasIsNotUnderstood) {
  for (const char* text : {"{", "}", "{file", "file}", "{}", "{fil}", "{file.name}", "{parameters}", "{parameters.}",
                           "{parameters..a}", "{.a}", "{step.a}", "{ file}", "{{file}"}) {
    const Result<ExecArguments> parsed = ExecArguments::parse({text});
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
    EXPECT_NE(parsed.error().message.find("'" + std::string(text) + "'"), std::string::npos) << parsed.error();
  }
  EXPECT_FALSE(ExecArguments::parse({std::string("a\0b", 3)}).ok());
}

TEST(ExecArgumentsTest, AMissingValueIsNamed) {
  const json step = {{"file", nullptr}, {"parameters", {{"list", {1}}, {"text", "t"}, {"none", nullptr}}}};

  for (const char* place :
       {"{file}", "{parameters.none}", "{parameters.list}", "{parameters.text.more}", "{payload.a}", "{token}"}) {
    EXPECT_NE(error_of({place}, step).find(place), std::string::npos) << place;
  }
}

TEST(ExecArgumentsTest, AValueIsNeverAnOption) {
  const json step = {{"parameters", {{"dash", "-rf"}, {"minus", -1}, {"empty", ""}}}};

  EXPECT_NE(error_of({"{parameters.dash}"}, step), "");
  EXPECT_NE(error_of({"{parameters.minus}"}, step), "");
  EXPECT_NE(error_of({"{parameters.empty}{parameters.dash}"}, step), "");
  EXPECT_EQ(error_of({"./{parameters.dash}"}, step), "");
}

TEST(ExecArgumentsTest, ANulByteOrTooMuchIsRefused) {
  EXPECT_NE(error_of({"{group}"}, {{"group", std::string("a\0b", 3)}}), "");
  const json step = {{"group", std::string(ExecArguments::kMaxBytes / 2, 'x')}};
  EXPECT_EQ(error_of({"{group}"}, step), "");
  EXPECT_NE(error_of({"{group}", "{group}"}, step), "");
}

TEST(ExecArgumentsTest, ParametersCanBeCheckedAlone) {
  const Result<ExecArguments> parsed = ExecArguments::parse({"{file}", "{parameters.size}", "{context.a}"});
  ASSERT_TRUE(parsed.ok());

  EXPECT_TRUE(parsed->check_parameters({{"size", 1}}).ok());
  EXPECT_FALSE(parsed->check_parameters({{"width", 1}}).ok());
}

}  // namespace
}  // namespace cohort
