#include "plugin/child_output.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Lines = std::vector<std::string>;

std::string nested(int levels) {
  std::string text = R"({"a":)";
  for (int i = 1; i < levels; ++i) text += '[';
  for (int i = 1; i < levels; ++i) text += ']';
  return text + "}";
}

TEST(ChildOutputTest, OutputsAreAnObjectOrNothing) {
  EXPECT_EQ(*outputs_of(R"( {"a": 1} )"), nlohmann::json({{"a", 1}}));
  EXPECT_EQ(*outputs_of(" \r\n\t"), nlohmann::json::object());
  for (const char* text : {"[]", "1", "{", "{} {}", "a", "{\"a\": \"\xff\"}"})
    EXPECT_FALSE(outputs_of(text).ok()) << text;
}

TEST(ChildOutputTest, OutputsHave64LevelsAtMost) {
  EXPECT_TRUE(outputs_of(nested(64)).ok());
  EXPECT_FALSE(outputs_of(nested(65)).ok());
  EXPECT_TRUE(outputs_of(R"({"a": ")" + std::string(100, '[') + R"(\"[["})").ok());
}

TEST(ChildOutputTest, LinesAreReadable) {
  EXPECT_EQ(readable_lines("a\r\n\nb\tc\n", false), (Lines{"a", "b\tc"}));
  EXPECT_EQ(readable_lines("\x1b[1m\xc3\xa4\xff\xed\xa0\x80\xf0\x9f\x98\x80\xc3", false),
            (Lines{"?[1m\xc3\xa4????\xf0\x9f\x98\x80?"}));
}

TEST(ChildOutputTest, ALineIsCutBetweenCharacters) {
  const Lines lines = readable_lines(std::string(999, 'x') + "\xc3\xa4yy", false);

  EXPECT_EQ(lines, (Lines{std::string(999, 'x')}));
}

TEST(ChildOutputTest, HalfALineIsLeftOut) {
  EXPECT_EQ(readable_lines("alf a line\nb\nc", true), (Lines{"b", "c"}));
  EXPECT_EQ(readable_lines("alf a line", true), (Lines{"alf a line"}));
}

}  // namespace
}  // namespace cohort
