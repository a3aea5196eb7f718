#include "cohort/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace cohort {
namespace {

Result<int> parse(const std::string& text) {
  if (text.empty()) return Error{ErrorCode::kInvalid, "nothing to parse", {}};
  return std::stoi(text);
}

TEST(ResultTest, IsAValueOrAnError) {
  const Result<int> good = parse("42");
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 42);

  const Result<int> bad = parse("");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalid);
}

TEST(ResultTest, MovesItsValueOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 5);
}

TEST(ResultTest, OfAnErrorTypeKeepsBothApart) {
  const Result<std::string> text = std::string("fine");
  EXPECT_EQ(text->size(), 4U);
  EXPECT_TRUE(Result<void>().ok());
  EXPECT_EQ(Result<void>(Error{ErrorCode::kEnded, "over", {}}).error().message, "over");
}

TEST(ResultDeathTest, ReadingWhatIsNotThereIsAnAssertion) {
  EXPECT_DEATH(static_cast<void>(parse("").value()), "value.. is for a Result that succeeded");
  EXPECT_DEATH(static_cast<void>(parse("1").error()), "error.. is for a Result that failed");
}

}  // namespace
}  // namespace cohort
