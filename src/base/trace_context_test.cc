#include "cohort/base/trace_context.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

const std::string kGood = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ReadsAndWritesTheHeader) {
  const auto context = TraceContext::parse(kGood);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->to_string(), kGood);
  EXPECT_TRUE(TraceContext::parse("cc" + kGood.substr(2) + "-later"));
}

TEST(TraceContextTest, RefusesWhatIsMalformed) {
  for (const std::string& bad :
       {std::string(), kGood.substr(1), kGood + "-x", "ff" + kGood.substr(2),
        "00-" + std::string(32, '0') + kGood.substr(35), kGood.substr(0, 36) + std::string(16, '0') + "-01",
        "00_" + kGood.substr(3), "0G" + kGood.substr(2),
        std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01")}) {
    EXPECT_FALSE(TraceContext::parse(bad)) << bad;
  }
}

TEST(TraceContextTest, AChildIsOfTheSameTrace) {
  Random random(5);
  const TraceContext root = TraceContext::start(random, true);
  const TraceContext child = root.child(random);
  EXPECT_EQ(child.trace_id, root.trace_id);
  EXPECT_NE(child.span_id, root.span_id);
  EXPECT_EQ(TraceContext::parse(child.to_string()), child);
}

}  // namespace
}  // namespace cohort
