#include "cohort/base/internal/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace cohort::internal {
namespace {

TEST(BlockPoolTest, EveryBlockIsAsLongAsAskedForAndNobodyElses) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t size = 1; size <= 700; ++size) {
    auto* block = static_cast<unsigned char*>(allocate_block(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0U);
    std::memset(block, static_cast<int>(size % 251), size);
    blocks.emplace_back(block, size);
  }
  for (auto [block, size] : blocks) {
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(block[i], size % 251);
    free_block(block, size);
  }
}

TEST(BlockPoolTest, BlocksMayBeFreedOnAnotherThreadAndThreadsMayEnd) {
  for (int round = 0; round < 5; ++round) {
    std::vector<void*> blocks;
    std::thread maker([&] {
      for (int i = 0; i < 1000; ++i) blocks.push_back(allocate_block(160));
    });
    maker.join();
    std::thread dropper([&] {
      for (void* block : blocks) free_block(block, 160);
    });
    dropper.join();
  }
}

}  // namespace
}  // namespace cohort::internal
