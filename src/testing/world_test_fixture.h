#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cohort/testing/world.h"

namespace cohort {

/// A test in a World; fails when the World is left with anything in it.
class WorldTest : public ::testing::Test {
 protected:
  World& make_world(GroupExecutorOptions options = {}) {
    world_ = std::make_unique<World>(std::move(options));
    return *world_;
  }
  ManualExecutor& executor() { return world_->executor; }
  World& world() { return *world_; }
  Time now() { return world_->clock.now(); }

  void TearDown() override {
    if (world_ != nullptr) {
      EXPECT_EQ(world_->leaks(), "");
    }
  }

 private:
  std::unique_ptr<World> world_;
};

}  // namespace cohort
