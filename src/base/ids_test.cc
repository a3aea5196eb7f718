#include "cohort/base/ids.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace cohort {
namespace {

struct TestKind {
  static constexpr std::string_view kName = "test id";
  static constexpr std::size_t kMaxBytes = 8;
};
using TestId = Id<TestKind>;

TEST(IdsTest, AcceptsUpToItsLimit) {
  EXPECT_EQ(TestId::parse("12345678")->str(), "12345678");
  EXPECT_EQ(TestId::parse("").error().message, "the test id is empty");
  EXPECT_EQ(TestId::parse("123456789").error().message, "the test id has 9 bytes; at most 8 are allowed");
}

TEST(IdsTest, ComparesAndHashes) {
  EXPECT_LT(*TestId::parse("a"), *TestId::parse("b"));
  const std::unordered_set<TestId> set = {*TestId::parse("a"), *TestId::parse("a")};
  EXPECT_EQ(set.size(), 1U);
}

}  // namespace
}  // namespace cohort
