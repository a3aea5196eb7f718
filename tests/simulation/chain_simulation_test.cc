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

struct CheckpointsEarly : NoChainFaults {
  static constexpr bool kCheckpointBeforeStep = true;
};
struct ForgetsReadyRows : NoChainFaults {
  static constexpr bool kForgetReadyRow = true;
};

struct AcknowledgesEarly : NoChainFaults {
  static constexpr bool kAcknowledgeEarly = true;
};

template <class Faults>
std::string first_violation(MemoryStore::PlantedBugs bugs = {}) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::string wrong = ChainSimulation<Faults>(seed, bugs).run();
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(ChainSimulationTest, ACheckpointBeforeItsStepIsFound) { EXPECT_NE(first_violation<CheckpointsEarly>(), ""); }

TEST(ChainSimulationTest, AStaleEpochThatIsAcceptedIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.accepts_stale_epochs = true}), "");
}

TEST(ChainSimulationTest, AReadyRowThatIsForgottenIsFound) { EXPECT_NE(first_violation<ForgetsReadyRows>(), ""); }

TEST(ChainSimulationTest, AMessageThatIsAcknowledgedTooEarlyIsFound) {
  EXPECT_NE(first_violation<AcknowledgesEarly>(), "");
}

TEST(ChainSimulationTest, ANeighbourThatIsBlamedIsFound) {
  EXPECT_NE(first_violation<NoChainFaults>({.blames_neighbours = true}), "");
}

}  // namespace
}  // namespace cohort
