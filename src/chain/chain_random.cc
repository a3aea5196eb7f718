#include "chain/chain_random.h"

#include <random>

namespace cohort {

namespace {

std::uint64_t seed_from_the_system() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

}  // namespace

ChainRandom::ChainRandom(std::uint64_t seed) : random_(seed != 0 ? seed : seed_from_the_system()) {}

std::string ChainRandom::make_id() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  MutexLock lock(mutex_);
  for (const std::uint64_t half : {random_.next(), random_.next()}) {
    for (int shift = 60; shift >= 0; shift -= 4) id += kDigits[(half >> shift) & 15U];
  }
  return id;
}

}  // namespace cohort
