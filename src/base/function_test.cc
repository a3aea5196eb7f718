#include "cohort/base/function.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>

namespace cohort {
namespace {

TEST(FunctionTest, OwnsMoveOnlyThings) {
  Function<int(int)> add = [base = std::make_unique<int>(40)](int x) { return *base + x; };
  Function<int(int)> moved = std::move(add);
  EXPECT_EQ(moved(2), 42);
  EXPECT_FALSE(static_cast<bool>(add));  // NOLINT: moved from on purpose
}

TEST(FunctionTest, HoldsWhatDoesNotFitInPlace) {
  auto alive = std::make_shared<int>(1);
  {
    std::array<char, 200> large{};
    large[199] = 'x';
    Function<char()> last = [large, alive] { return large[199]; };
    Function<char()> moved = std::move(last);
    EXPECT_EQ(alive.use_count(), 2);
    EXPECT_EQ(moved(), 'x');
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(FunctionTest, IsEmptyWhenMadeOfSomethingEmpty) {
  EXPECT_FALSE(static_cast<bool>(Function<void()>()));
  EXPECT_FALSE(static_cast<bool>(Function<void()>(nullptr)));
  EXPECT_FALSE(static_cast<bool>(Function<void()>(std::function<void()>())));
  void (*none)() = nullptr;
  EXPECT_FALSE(static_cast<bool>(Function<void()>(none)));
  EXPECT_TRUE(static_cast<bool>(Function<void()>([] {})));
}

TEST(FunctionTest, DropsItsCallableWhenAssigned) {
  auto alive = std::make_shared<int>(1);
  Function<void()> function = [alive] {};
  function = nullptr;
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(FunctionDeathTest, CallingAnEmptyOneIsAnAssertion) {
  Function<void()> empty;
  EXPECT_DEATH(empty(), "an empty Function cannot be called");
}

}  // namespace
}  // namespace cohort
