#include "cli/text.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/fields.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

const std::string kBad = "\xEF\xBF\xBD";

TEST(SafeText, LeavesWhatIsHarmless) {
  EXPECT_EQ(safe_text("resize: caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80"),
            "resize: caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80");
}

TEST(SafeText, AnEscapeSequenceIsOneReplacement) {
  EXPECT_EQ(safe_text("a\x1b[31mred\x1b[0m"), "a" + kBad + "red" + kBad);
  EXPECT_EQ(safe_text("\x1b]0;title\x07tail"), kBad + "tail");
  EXPECT_EQ(safe_text("\x1b]8;;http://x\x1b\\tail"), kBad + "tail");
  EXPECT_EQ(safe_text("\x1b"
                      "cafter"),
            kBad + "after");
}

TEST(SafeText, AnUnfinishedSequenceHidesNothing) {
  EXPECT_EQ(safe_text("\x1b]0;shown"), kBad + "]0;shown");
  EXPECT_EQ(safe_text("\x1b[12"), kBad + "[12");
  EXPECT_EQ(safe_text("\x1b"), kBad);
}

TEST(SafeText, ControlsAndMarksOfDirectionAreReplaced) {
  EXPECT_EQ(safe_text(std::string("a\0b", 3)), "a" + kBad + "b");
  EXPECT_EQ(safe_text("a\x7f\r\b"), "a" + kBad + kBad + kBad);
  EXPECT_EQ(safe_text("a\xC2\x9B"
                      "31m"),
            "a" + kBad + "31m");
  EXPECT_EQ(safe_text("a\xE2\x80\xAE"
                      "b"),
            "a" + kBad + "b");
}

TEST(SafeText, WhatIsNotUtf8IsReplacedByteByByte) {
  EXPECT_EQ(safe_text("\xC0\x80"), kBad + kBad);
  EXPECT_EQ(safe_text("\xE6\x97"), kBad + kBad);
  EXPECT_EQ(safe_text("\xED\xA0\x80"), kBad + kBad + kBad);
  EXPECT_EQ(safe_text("x\x9B"), "x" + kBad);
}

TEST(SafeText, LineBreaksAreJoinedUnlessKept) {
  EXPECT_EQ(safe_text("a\nb\tc\r\nd"), "a b c d");
  EXPECT_EQ(safe_text("a\nb\tc\r\nd", Lines::kKeep), "a\nb c\nd");
}

TEST(JsonText, EscapesWhatATerminalWouldObeyAndStaysTheSameJson) {
  const nlohmann::json value = {{"a", "x\x1b[31m\x7f\xC2\x9B\xE2\x80\xAE"}};
  const std::string text = json_text(value, true);
  EXPECT_EQ(text, "{\n  \"a\": \"x\\u001b[31m\\u007f\\u009b\\u202e\"\n}");
  EXPECT_EQ(nlohmann::json::parse(text), value);
}

TEST(ParseJson, RefusesWhatIsNestedTooDeep) {
  EXPECT_TRUE(parse_json(R"({"a": [1, {"b": null}]})").ok());
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).ok());
  EXPECT_EQ(parse_json(R"({"a": {"b": 1}, "c": {"b": 2, "b": 3}})").error().message, "the key 'b' is there twice");
  EXPECT_FALSE(parse_json(std::string(500, '[') + std::string(500, ']')).ok());
  EXPECT_FALSE(parse_json("{").ok());
  EXPECT_FALSE(parse_json("").ok());
}

TEST(DisplayWidth, CountsCodePointsAndWideOnesTwice) {
  EXPECT_EQ(display_width("caf\xC3\xA9"), 4);
  EXPECT_EQ(display_width("\xE6\x97\xA5\xE6\x9C\xAC"), 4);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);
  EXPECT_EQ(display_width("\xF0\x9F\x98\x80"), 2);
}

TEST(CutToWidth, KeepsWholeCharacters) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(cut_to_width("\xE6\x97\xA5\xE6\x9C\xAC", 3), "\xE6\x97\xA5\xE2\x80\xA6");
  EXPECT_EQ(cut_to_width("\xE6\x97\xA5\xE6\x9C\xAC", 2), "\xE2\x80\xA6");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

TEST(AgeText, GivesTheLargestUnit) {
  const WallTime now = WallTime(std::chrono::hours(24 * 365));
  EXPECT_EQ(age_text(now - 5s, now), "5s");
  EXPECT_EQ(age_text(now - 5min, now), "5m");
  EXPECT_EQ(age_text(now - 3h, now), "3h");
  EXPECT_EQ(age_text(now - 72h, now), "3d");
  EXPECT_EQ(age_text(now + 5min, now), "in 5m");
  EXPECT_EQ(age_text("1970-12-31T23:59:00Z", now), "60s");
  EXPECT_EQ(age_text("soon", now), "-");
}

TEST(Style, PaintsOnlyWithColours) {
  EXPECT_EQ(Style{.colour = true}.paint(Colour::kRed, "x"), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(Style{.colour = false}.paint(Colour::kRed, "x"), "x");
  EXPECT_EQ(Style{.colour = true}.paint(Colour::kNone, "x"), "x");
}

}  // namespace
}  // namespace cohort
