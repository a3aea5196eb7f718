#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "cohort/graph/graph.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/world.h"

namespace cohort {

using namespace std::chrono_literals;

struct Page {
  int id = 0;
};

class GraphTest : public ::testing::Test {
 protected:
  // A node that takes so long and gives its number, or fails.
  auto slow(const std::string& name, Duration latency, int value = 1) {
    return builder.node(name, [latency, value]() -> Task<int> {
      co_await sleep_for(latency);
      co_return value;
    });
  }
  auto broken(const std::string& name, ErrorCode code = ErrorCode::kInvalid) {
    return builder.node(name, [code]() -> Result<int> { return Error{code, "it broke"}; });
  }
  Graph<Page>& build(GraphOptions options = {}) {
    auto built = builder.build(world.executor, std::move(options));
    EXPECT_TRUE(built.ok()) << (built.ok() ? "" : built.error().message);
    graph = std::make_unique<Graph<Page>>(std::move(*built));
    return *graph;
  }
  std::string refusal() {
    auto built = builder.build(world.executor);
    return built.ok() ? "" : built.error().message;
  }

  World world;
  GraphBuilder<Page> builder;
  std::unique_ptr<Graph<Page>> graph;
};

}  // namespace cohort
