#include "cohort/base/random.h"

#include <bit>

#include "cohort/base/assert.h"

namespace cohort {
namespace {

// splitmix64 spreads a seed over the state, as the authors of xoshiro advise.
std::uint64_t spread(std::uint64_t& seed) {
  seed += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = seed;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = spread(seed);
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t limit) {
  COHORT_ASSERT(limit > 0, "Random::below() needs a limit above 0");
  // The numbers under `uneven` would make the small remainders likelier.
  const std::uint64_t uneven = (0 - limit) % limit;
  for (;;) {
    const std::uint64_t number = next();
    if (number >= uneven) return number % limit;
  }
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  COHORT_ASSERT(low <= high, "Random::between() needs low <= high");
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = span == 0 ? next() : below(span);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

double Random::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

bool Random::chance(double probability) { return unit() < probability; }

}  // namespace cohort
