#include "group/group_policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace cohort::internal {
namespace {

GroupPolicy::Resolved resolve(const GroupPolicy& policy, std::string_view key) {
  return policy.resolve(key, policy.ask(key));
}

TEST(GroupPolicyTest, EachFieldComesFromTheFirstSourceThatHasIt) {
  GroupExecutorOptions options{
      .groups = {{"a", {.max_concurrency = 7}}},
      .resolver = [](std::string_view) -> GroupLimits { return {.max_concurrency = 3, .max_in_flight = 9}; },
      .defaults = {.max_in_flight = 5, .max_waiting = 11}};
  GroupPolicy policy(options);

  EXPECT_EQ(resolve(policy, "a").limits.max_concurrency, 7U);
  EXPECT_EQ(resolve(policy, "a").limits.max_in_flight, 9U);
  EXPECT_EQ(resolve(policy, "a").limits.max_waiting, 11U);
  EXPECT_EQ(resolve(policy, "b").limits.max_concurrency, 3U);
}

TEST(GroupPolicyTest, EachFieldSaysWhereItCameFrom) {
  GroupExecutorOptions options{
      .groups = {{"a", {.max_concurrency = 7}}},
      .resolver = [](std::string_view) -> GroupLimits { return {.max_concurrency = 3, .max_in_flight = 9}; },
      .defaults = {.max_in_flight = 5, .max_waiting = 11}};
  GroupPolicy policy(options);
  policy.change("a", {.weight = 2});

  const LimitSources sources = resolve(policy, "a").limits.sources;
  EXPECT_EQ(sources.max_concurrency, LimitSource::kGroups);
  EXPECT_EQ(sources.max_in_flight, LimitSource::kResolver);
  EXPECT_EQ(sources.max_waiting, LimitSource::kDefaults);
  EXPECT_EQ(sources.weight, LimitSource::kChanged);
  EXPECT_EQ(sources.rate, LimitSource::kBuiltIn);
  EXPECT_EQ(changed(resolve(policy, "a").limits, {.max_waiting = 1}).sources.max_waiting, LimitSource::kChanged);
  EXPECT_EQ(to_string(LimitSource::kResolver), "resolver");
}

TEST(GroupPolicyTest, AResolverThatThrowsSaysNothing) {
  GroupExecutorOptions options{.resolver = [](std::string_view) -> GroupLimits { throw std::runtime_error("down"); },
                               .defaults = {.max_concurrency = 4}};
  GroupPolicy policy(options);
  EXPECT_EQ(resolve(policy, "a").limits.max_concurrency, 4U);
}

TEST(GroupPolicyTest, ImpossibleValuesAreCorrected) {
  GroupExecutorOptions options{
      .groups = {
          {"zero", {.max_concurrency = 0, .max_in_flight = 0, .max_waiting = 0, .weight = 0.0, .max_overrunning = 0}},
          {"nan", {.weight = std::numeric_limits<double>::quiet_NaN()}},
          {"below", {.weight = -3.0}}}};
  GroupPolicy policy(options);
  const ResolvedLimits zero = resolve(policy, "zero").limits;
  EXPECT_EQ(zero.max_concurrency, 1U);
  EXPECT_EQ(zero.max_in_flight, 1U);
  EXPECT_EQ(zero.max_waiting, 0U) << "now or not at all";
  EXPECT_EQ(zero.max_overrunning, 1U);
  for (const char* key : {"zero", "nan", "below"}) EXPECT_EQ(resolve(policy, key).limits.weight, 1.0) << key;
}

TEST(GroupPolicyTest, OverrunningIsBoundedByTheConcurrencyUnlessSet) {
  GroupExecutorOptions options{
      .groups = {{"a", {.max_concurrency = 6}}, {"b", {.max_concurrency = 6, .max_overrunning = 2}}}};
  GroupPolicy policy(options);
  EXPECT_EQ(resolve(policy, "a").limits.max_overrunning, 6U);
  EXPECT_EQ(resolve(policy, "b").limits.max_overrunning, 2U);
}

TEST(GroupPolicyTest, APauseAndAConcurrencyOfZeroAreTwoThings) {
  GroupExecutorOptions options;
  GroupPolicy policy(options);
  policy.set_paused("a", true);
  policy.change("a", {.max_concurrency = 2});
  EXPECT_TRUE(policy.is_paused("a"));
  policy.set_paused("a", false);
  EXPECT_FALSE(policy.is_paused("a"));
  policy.change("a", {.max_concurrency = 0});
  EXPECT_TRUE(policy.is_paused("a"));
  policy.set_paused("a", false);
  EXPECT_FALSE(policy.is_paused("a"));
}

TEST(GroupPolicyTest, AChangeTouchesOnlyWhatItSets) {
  const ResolvedLimits before{.max_concurrency = 3, .max_in_flight = 7, .max_overrunning = 3, .rate = Rate{.count = 5}};
  const ResolvedLimits after = changed(before, {.max_concurrency = 9});
  EXPECT_EQ(after.max_concurrency, 9U);
  EXPECT_EQ(after.max_overrunning, 9U);
  EXPECT_EQ(after.max_in_flight, 7U);
  EXPECT_TRUE(after.rate.has_value());
  EXPECT_FALSE(changed(before, {.rate = Rate{.count = kUnlimited}}).rate.has_value());
  EXPECT_EQ(changed(before, {.max_concurrency = 0}).max_concurrency, 3U);
}

TEST(GroupPolicyTest, ChangesAddUpAndZeroPauses) {
  GroupExecutorOptions options{.groups = {{"a", {.max_concurrency = 6}}}};
  GroupPolicy policy(options);
  policy.change("a", {.max_in_flight = 3});
  policy.change("a", {.max_concurrency = 0});
  EXPECT_TRUE(resolve(policy, "a").paused);
  EXPECT_EQ(resolve(policy, "a").limits.max_concurrency, 6U);
  EXPECT_EQ(resolve(policy, "a").limits.max_in_flight, 3U);
  policy.change("a", {.max_concurrency = 2});
  EXPECT_FALSE(resolve(policy, "a").paused);
  EXPECT_EQ(resolve(policy, "a").limits.max_concurrency, 2U);
  EXPECT_EQ(resolve(policy, "a").limits.max_in_flight, 3U);
}

}  // namespace
}  // namespace cohort::internal
