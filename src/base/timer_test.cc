#include "cohort/base/timer.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "cohort/base/random.h"

namespace cohort {
namespace {

struct Named : Timer {
  explicit Named(int n) : number(n) {}
  int number;
};

Time at(int ns) { return Time(Duration(ns)); }

TEST(TimerQueueTest, GivesWhatIsDueByTimeThenByOrderOfArming) {
  TimerQueue queue;
  Named a(1);
  Named b(2);
  Named c(3);
  queue.arm(a, at(20));
  queue.arm(b, at(10));
  queue.arm(c, at(10));

  EXPECT_EQ(queue.next(), at(10));
  EXPECT_EQ(queue.pop_due(at(9)), nullptr);
  EXPECT_EQ(queue.pop_due(at(10)), &b);
  EXPECT_FALSE(b.armed());
  EXPECT_EQ(queue.pop_due(at(15)), &c);
  EXPECT_EQ(queue.pop_due(at(15)), nullptr);
  queue.arm(a, at(5));
  EXPECT_EQ(queue.size(), 1U);
  EXPECT_EQ(queue.pop_due(at(5)), &a);
  EXPECT_EQ(queue.next(), std::nullopt);
}

TEST(TimerQueueTest, AgreesWithASortedMap) {
  Random random(3);
  TimerQueue queue;
  std::deque<Named> timers;
  for (int i = 0; i < 200; ++i) timers.emplace_back(i);
  std::map<std::pair<Time, int>, Named*> model;
  std::map<Named*, std::pair<Time, int>> place;
  int order = 0;
  const auto remove = [&](Named& timer) {
    if (place.contains(&timer)) model.erase(place.at(&timer));
    place.erase(&timer);
  };
  for (int i = 0; i < 20'000; ++i) {
    Named& timer = timers[random.below(timers.size())];
    if (random.chance(0.5)) {
      const Time when = at(static_cast<int>(random.below(1000)));
      queue.arm(timer, when);
      remove(timer);
      model[{when, order}] = &timer;
      place[&timer] = {when, order++};
    } else if (random.chance(0.5)) {
      queue.disarm(timer);
      remove(timer);
    } else if (!model.empty()) {
      const auto first = model.begin();
      ASSERT_EQ(queue.next(), first->first.first);
      Named* popped = static_cast<Named*>(queue.pop_due(first->first.first));
      ASSERT_EQ(popped, first->second);
      remove(*popped);
    }
    ASSERT_EQ(queue.size(), model.size());
  }
  for (Named& timer : timers) queue.disarm(timer);
}

}  // namespace
}  // namespace cohort
