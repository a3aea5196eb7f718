#include "cohort/base/failpoint.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

bool pass() { return COHORT_FAILPOINT("test.place"); }

TEST(FailpointTest, DoesNothingUnlessArmed) {
  EXPECT_FALSE(Failpoint::any_armed());
  EXPECT_FALSE(pass());
}

TEST(FailpointTest, RunsItsActionWhileArmed) {
  int passed = 0;
  {
    const Failpoint point("test.place", [&] { return ++passed == 2; });
    EXPECT_FALSE(pass());
    EXPECT_TRUE(pass());
    EXPECT_FALSE(COHORT_FAILPOINT("test.elsewhere"));
  }
  EXPECT_FALSE(pass());
  EXPECT_EQ(passed, 2);
}

TEST(FailpointTest, AnActionMayArmAnother) {
  const Failpoint outer("test.place", [] {
    const Failpoint inner("test.inner", [] { return true; });
    return COHORT_FAILPOINT("test.inner");
  });
  EXPECT_TRUE(pass());
}

}  // namespace
}  // namespace cohort
