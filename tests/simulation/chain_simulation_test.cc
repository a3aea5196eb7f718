// Durable chains under everything that can go wrong, and the proof that the checks would notice.

#include "simulation/chain_simulation.h"

#include <gtest/gtest.h>

#include "testing/seed_test_fixture.h"

namespace cohort {

namespace {

// Sanitizers make it slow, and do not look for what it looks for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr std::uint64_t kSeeds = 50;
#else
constexpr std::uint64_t kSeeds = 2000;
#endif

TEST(ChainSimulationTest, TheSameSeedIsTheSameHistory) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ChainSimulation<NoChainFaults> first(seed);
    ChainSimulation<NoChainFaults> second(seed);
    EXPECT_EQ(first.run(), second.run());
    EXPECT_EQ(first.history(), second.history()) << seed;
  }
}

TEST(ChainSimulationTest, NoInvariantIsBroken) {
  const Seeds seeds(kSeeds);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(ChainSimulation<NoChainFaults>(seed).run(), "") << "replay with ./dev sim " << seed;
  }
}

// One instantiation of the engine for all planted bugs, because each takes long to compile.
struct SwitchedFaults {
  static inline bool kForgetReadyRow = false;
  static inline bool kCheckpointBeforeStep = false;
  static inline bool kAcknowledgeEarly = false;
};

template <class Faults>
std::string first_violation(MemoryStore::PlantedBugs bugs = {}) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    std::string wrong = ChainSimulation<Faults>(seed, bugs).run();
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string first_violation_with(bool& planted) {
  planted = true;
  const std::string wrong = first_violation<SwitchedFaults>();
  planted = false;
  return wrong;
}

TEST(ChainSimulationTest, ACheckpointBeforeItsStepIsFound) {
  EXPECT_NE(first_violation_with(SwitchedFaults::kCheckpointBeforeStep), "");
}

TEST(ChainSimulationTest, AStaleEpochThatIsAcceptedIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.accepts_stale_epochs = true}), "");
}

TEST(ChainSimulationTest, AReadyRowThatIsForgottenIsFound) {
  EXPECT_NE(first_violation_with(SwitchedFaults::kForgetReadyRow), "");
}

TEST(ChainSimulationTest, AMessageThatIsAcknowledgedTooEarlyIsFound) {
  EXPECT_NE(first_violation_with(SwitchedFaults::kAcknowledgeEarly), "");
}

TEST(ChainSimulationTest, AClaimForADeadBootIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.claims_for_the_dead = true}), "");
}

TEST(ChainSimulationTest, HalfATakeOverIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.takes_over_half = true}), "");
}

TEST(ChainSimulationTest, AReaderOfEventsThatMissesOneIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.shows_events_late = true}), "");
}

TEST(ChainSimulationTest, LostNewsAreFound) {
  std::string wrong;
  for (std::uint64_t seed = 1; seed <= 300 && wrong.empty(); ++seed) {
    ChainSimulation<NoChainFaults> simulation(seed);
    simulation.forget_news();
    wrong = simulation.run();
  }
  EXPECT_NE(wrong, "");
}

// The second defence holds alone: a node gives back what it has claimed without knowing.
TEST(ChainSimulationTest, AClaimThatNobodyRunsIsGivenBack) {
  for (std::uint64_t seed = 1; seed <= kSeeds / 10; ++seed) {
    ASSERT_EQ(ChainSimulation<NoChainFaults>(seed, {.forgets_claim_ids = true}).run(), "") << seed;
  }
}

TEST(ChainSimulationTest, ANeighbourThatIsBlamedIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.blames_neighbours = true}), "");
}

}  // namespace
}  // namespace cohort
