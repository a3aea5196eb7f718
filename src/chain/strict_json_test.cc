#include "chain/strict_json.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::string fault_of(const std::string& text) {
  const auto parsed = parse_strict_json(text);
  return parsed ? "none" : parsed.error().message;
}

TEST(StrictJsonTest, GoodJsonIsReadAsItIs) {
  const std::string text = R"({"a":[1,-2,2.5,"x",null,true,{"b":[]}],"c":{}})";
  EXPECT_EQ(parse_strict_json(text)->dump(), text);
  EXPECT_EQ(parse_strict_json(" 7 ")->dump(), "7");
}

TEST(StrictJsonTest, TheFaultIsNamed) {
  EXPECT_EQ(fault_of(R"({"a": 1, "b": {"a": 2, "a": 3}})"), "the key 'a' is there twice");
  EXPECT_EQ(fault_of("{\"a\": \"\xFF\"}"), "it is not UTF-8 (at byte 8)");
  EXPECT_EQ(fault_of(R"({"a": 1e999})").substr(0, 24), "a number is out of range");
  EXPECT_EQ(fault_of("{} {}").substr(0, 39), "there are further bytes after the value");
  EXPECT_EQ(fault_of("{\"a\": ").substr(0, 17), "it ends too early");
  EXPECT_EQ(fault_of("{a: 1}").substr(0, 14), "it is not JSON");
  EXPECT_EQ(fault_of(std::string(65, '[') + std::string(65, ']')), "it is nested more than 64 deep");
  EXPECT_EQ(fault_of(std::string(64, '[') + std::string(64, ']')), "none");
}

}  // namespace
}  // namespace cohort
