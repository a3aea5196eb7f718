#include "cohort/base/utf8.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Utf8Test, WellFormedTextIsAccepted) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
}

TEST(Utf8Test, WhatIsNoCharacterIsRefused) {
  for (const char* text : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xFF"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
  EXPECT_EQ(utf8_bytes("\xE2\x82\xAC!"), 3U);
  EXPECT_EQ(utf8_characters("\xE2\x82\xAC!\xFF"), 3U);
}

}  // namespace
}  // namespace cohort
