#include "group/scheduler_storm.h"

#include <gtest/gtest.h>

#include "testing/seed_test_fixture.h"

namespace cohort::internal {
namespace {

TEST(SchedulerStormTest, NoRuleIsBroken) {
  const Seeds seeds(4000);
  std::uint64_t run_here = 0;
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(run_storm<NoFaults>(seed, &run_here), "") << "replay with ./dev sim " << seed;
  }
  if (seeds.last() - seeds.first() < 1000) return;
  EXPECT_GT(run_here, 1000U);
}

// A test that cannot fail proves nothing: each planted bug is found within a few hundred storms. Storms are small, so
// portions are too.
struct PlantedBugs {
  static inline int kPortion = 3;
  static inline bool kKeepPermitOfCancelled = false;
  static inline bool kStaleGlobalCheck = false;
  static inline bool kIdleKeepsCredit = false;
  static inline bool kForgetWake = false;
  static inline bool kSettleTwice = false;
};

TEST(SchedulerStormTest, NoRuleIsBrokenInSmallPortions) {
  const Seeds seeds(2000);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(run_storm<PlantedBugs>(seed), "") << "replay with ./dev sim " << seed;
  }
}

struct PlantedBug {
  const char* name;
  bool* planted;
};
void PrintTo(const PlantedBug& bug, std::ostream* out) { *out << bug.name; }

class PlantedBugTest : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void SetUp() override { *GetParam().planted = true; }
  void TearDown() override { *GetParam().planted = false; }
};
INSTANTIATE_TEST_SUITE_P(Planted, PlantedBugTest,
                         ::testing::Values(PlantedBug{"KeepPermitOfCancelled", &PlantedBugs::kKeepPermitOfCancelled},
                                           PlantedBug{"StaleGlobalCheck", &PlantedBugs::kStaleGlobalCheck},
                                           PlantedBug{"ForgetWake", &PlantedBugs::kForgetWake},
                                           PlantedBug{"SettleTwice", &PlantedBugs::kSettleTwice}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(PlantedBugTest, IsFound) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const std::string broken = run_storm<PlantedBugs>(seed);
    if (broken.empty()) continue;
    std::cout << "seed " << seed << ": " << broken << "\n";
    return;
  }
  FAIL() << "1000 storms did not find it";
}

// The fifth bug breaks no rule of the storm, only fairness: an idle group must not have saved up anything.

// One worker; "busy" has run for a second while "idle" did nothing; then "idle" has a hundred tasks of 1 ms. Returns
// how many of them start before the next one of "busy".
template <class Faults>
int starts_before_busy_is_next() {
  Time now(std::chrono::hours(1));
  GroupExecutorOptions options;
  options.threads = 1;
  Scheduler<Faults> scheduler(std::move(options), now);
  std::vector<Ref<StormTask>> tasks;
  const auto submit = [&](int group) {
    tasks.push_back(Ref<StormTask>::adopt(new StormTask(static_cast<int>(tasks.size()), group)));
    tasks.back()->home = reinterpret_cast<ExecutorHome*>(&tasks);
    tasks.back()->add_executors_reference();
    scheduler.submit(*tasks.back(), Origin::kOutside, FullQueue::kAsGroupSays, now);
  };
  Turn turn;
  const auto run_next = [&] {
    EXPECT_TRUE(scheduler.take(turn, now));
    auto* task = static_cast<StormTask*>(turn.begin(now));
    const int group = task->in_group;
    now += std::chrono::milliseconds(1);
    task->claim_by_body(TaskStatus::kSuccess);
    task->publish(now);
    scheduler.finish(turn, now);
    return group;
  };
  submit(1);
  run_next();
  for (int i = 0; i < 1200; ++i) submit(0);
  for (int i = 0; i < 1000; ++i) run_next();
  for (int i = 0; i < 100; ++i) submit(1);
  int before = 0;
  while (run_next() == 1) ++before;
  for (EndAll all; scheduler.cancel_all(all, now);) {
  }
  for (const Chore& each : scheduler.take_actions().own) {
    each.record->publish(now);
    each.record->drop_executors_reference(now);
  }
  return before;
}

TEST(FairnessBugTest, CreditKeptByAnIdleGroupIsFound) {
  EXPECT_LE(starts_before_busy_is_next<PlantedBugs>(), 1);
  PlantedBugs::kIdleKeepsCredit = true;
  EXPECT_GE(starts_before_busy_is_next<PlantedBugs>(), 50);
  PlantedBugs::kIdleKeepsCredit = false;
}

}  // namespace
}  // namespace cohort::internal
