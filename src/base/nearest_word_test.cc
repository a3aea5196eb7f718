#include "cohort/base/internal/nearest_word.h"

#include <gtest/gtest.h>

namespace cohort::internal {
namespace {

TEST(NearestWordTest, ASlipOfTheFingerIsUnderstood) {
  const std::vector<std::string_view> known = {"tasks", "task", "groups", "dead-letters"};
  EXPECT_EQ(nearest_word("tasksx", known), "tasks");
  EXPECT_EQ(nearest_word("gruops", known), "groups");
  EXPECT_EQ(nearest_word("dead-leters", known), "dead-letters");
}

TEST(NearestWordTest, AnotherWordIsNotGuessedAt) {
  EXPECT_EQ(nearest_word("kafka", {"tasks", "groups"}), "");
  EXPECT_EQ(nearest_word("x", {}), "");
}

}  // namespace
}  // namespace cohort::internal
