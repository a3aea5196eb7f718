// Callers who choose ids to do harm, and what waiting for locks looks like.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cohort/session/session_registry.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Registry = SessionRegistry<int>;

SessionId session(const std::string& id) { return SessionId::parse(id).value(); }
GroupName name(const std::string& id) { return GroupName::parse(id).value(); }

TEST(SessionAttackTest, EndMarksOfUnknownSessionsTakeNoPlaceOfOthers) {
  VirtualClock clock;
  Registry registry({.max_sessions = 160, .shards = 1, .clock = &clock, .sweeps_itself = false});
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(registry.end_session(session("never-" + std::to_string(i)), "attack"));
  }
  EXPECT_EQ(registry.counts().ended, 10U) << "a sixteenth of max_sessions";
  EXPECT_EQ(registry.check(), "");
  for (int i = 0; i < 160; ++i) {
    ASSERT_TRUE(registry.ensure_group(session("real-" + std::to_string(i)), name("g"))) << i;
  }
  EXPECT_FALSE(registry.ensure_group(session("one-more"), name("g")));
  // The newest are remembered, and as long as others.
  EXPECT_EQ(registry.ensure_group(session("never-9999"), name("g")).error().code, ErrorCode::kEnded);
  EXPECT_TRUE(registry.end_session(session("real-7"), "over"));
  clock.advance(5min);
  static_cast<void>(registry.sweep());
  EXPECT_EQ(registry.counts().ended, 0U);
  EXPECT_EQ(registry.check(), "");
}

// Ids that all fall into one place under one secret are spread under another.
TEST(SessionAttackTest, WhoDoesNotKnowTheSecretCannotChooseIdsOfOnePlace) {
  const auto hash_of = [](Registry& registry, const std::string& id) {
    const GroupId group = registry.ensure_group(session(id), name("g"))->id;
    return std::pair(group.shard, group.hash & 63U);
  };
  Registry known({.shards = 1, .sweeps_itself = false, .hash_secret = 1});
  Registry same({.shards = 1, .sweeps_itself = false, .hash_secret = 1});
  Registry other({.shards = 1, .sweeps_itself = false, .hash_secret = 2});
  Registry process({.shards = 1, .sweeps_itself = false});
  std::vector<std::string> chosen;
  for (int i = 0; chosen.size() < 300; ++i) {
    const std::string id = "id-" + std::to_string(i);
    if (hash_of(known, id).second == 0) chosen.push_back(id);
  }
  std::map<std::uint32_t, int> in_other;
  std::map<std::uint32_t, int> in_process;
  for (const std::string& id : chosen) {
    EXPECT_EQ(hash_of(same, id).second, 0U);
    ++in_other[hash_of(other, id).second];
    ++in_process[hash_of(process, id).second];
  }
  for (const auto* spread : {&in_other, &in_process}) {
    const auto most = std::ranges::max_element(*spread, {}, [](const auto& each) { return each.second; });
    EXPECT_LT(most->second, 30) << "of 300 in 64 places";
  }
}

TEST(SessionAttackTest, GroupsThatAreCalledLikeTheirSessionsAreSpread) {
  Registry registry({.shards = 1, .sweeps_itself = false});
  std::map<std::uint32_t, int> places;
  for (int i = 0; i < 300; ++i) {
    const std::string id = "x" + std::to_string(i);
    ++places[registry.ensure_group(session(id), name(id))->id.hash & 63U];
  }
  EXPECT_LT(std::ranges::max_element(places, {}, [](const auto& each) { return each.second; })->second, 30);
}

TEST(SessionAttackTest, WaitsForLocksAreMeasuredByTheKindOfCall) {
  Registry registry({.shards = 1});
  const GroupId id = registry.ensure_group(session("s"), name("g"))->id;
  const auto waits_of = [&](std::string_view call) {
    const std::vector<SessionLockWaits> all = registry.lock_waits();
    return *std::ranges::find(all, call, &SessionLockWaits::call);
  };
  for (int i = 0; i < 50; ++i) static_cast<void>(registry.touch(session("s")));
  EXPECT_EQ(waits_of("touch").calls, 50U);
  EXPECT_EQ(waits_of("touch").waited, 0U) << "nobody else was there";
  EXPECT_EQ(waits_of("touch").longest, 0s);

  std::uint64_t calls = 0;
  while (waits_of("find").waited == 0) {  // As a rule at the first time.
    std::latch inside(1);
    std::atomic<bool> asks{false};
    std::thread holder([&] {
      static_cast<void>(registry.with_group(id, [&](int&) {
        inside.count_down();
        for (int i = 0; i < 10'000 || !asks; ++i) std::this_thread::yield();
      }));
    });
    inside.wait();
    asks = true;
    EXPECT_TRUE(registry.find_group(id));
    ++calls;
    holder.join();
  }
  const SessionLockWaits find = waits_of("find");
  EXPECT_EQ(find.calls, calls);
  EXPECT_EQ(find.waited, 1U);
  EXPECT_GT(find.longest, 0s);
  EXPECT_GT(find.p99, 0s);
  EXPECT_EQ(waits_of("visit").waited, 0U);
}

}  // namespace
}  // namespace cohort
