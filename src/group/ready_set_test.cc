#include "group/ready_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>

#include "cohort/base/random.h"

namespace cohort::internal {
namespace {

constexpr double kWidth = 25'000;

TEST(ReadySetTest, GivesTheLeastServedFirst) {
  ReadySet set(static_cast<ReadyHook Group::*>(&Group::normal));
  Group a("a");
  Group b("b");
  Group c("c");
  a.served = 3 * kWidth;
  b.served = 1 * kWidth;
  c.served = 500 * kWidth;
  for (Group* group : {&a, &b, &c}) set.insert(*group);

  EXPECT_EQ(set.min(), &b);
  b.served = 10 * kWidth;
  EXPECT_EQ(set.min(), &a) << "b has been charged since";
  set.erase(a);
  EXPECT_EQ(set.min(), &b);
  set.erase(b);
  EXPECT_EQ(set.min(), &c);
  a.served = 2 * kWidth;
  set.insert(a);
  EXPECT_EQ(set.min(), &a) << "it came in behind the wheel";
  c.served = kWidth;
  set.update(c);
  EXPECT_EQ(set.min(), &c);
  set.erase(a);
  set.erase(c);
  EXPECT_EQ(set.min(), nullptr);
}

TEST(ReadySetTest, IsFirstInFirstOutWithinABucket) {
  ReadySet set(&Group::urgent);
  std::deque<Group> groups;
  for (int i = 0; i < 10; ++i) {
    groups.emplace_back(std::to_string(i)).served = 100 * (10 - i);
    set.insert(groups.back());
  }
  for (Group& group : groups) {
    ASSERT_EQ(set.min(), &group);
    set.erase(group);
  }
}

TEST(ReadySetTest, AgreesWithASearchWithinABucket) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    ReadySet set(static_cast<ReadyHook Group::*>(&Group::normal));
    std::deque<Group> groups;
    for (int i = 0; i < 60; ++i) groups.emplace_back(std::to_string(i)).served = random.unit() * 100 * kWidth;
    std::set<Group*> inside;
    for (int i = 0; i < 5000; ++i) {
      Group& group = groups[random.below(groups.size())];
      if (!inside.contains(&group)) {
        set.insert(group);
        inside.insert(&group);
      } else if (random.chance(0.3)) {
        set.erase(group);
        inside.erase(&group);
      } else if (random.chance(0.1)) {
        group.served = std::max(0.0, group.served - random.unit() * 80 * kWidth);
        set.update(group);
      } else {
        group.served += random.unit() * random.unit() * 90 * kWidth;
      }
      ASSERT_EQ(set.size(), inside.size());
      Group* min = set.min();
      ASSERT_EQ(min == nullptr, inside.empty());
      for (Group* other : inside) {
        ASSERT_LE(std::floor(min->served / kWidth), std::floor(other->served / kWidth)) << "seed " << seed;
      }
    }
    for (Group* group : inside) set.erase(*group);
  }
}

}  // namespace
}  // namespace cohort::internal
