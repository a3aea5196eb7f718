#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/provider/router.h"
#include "cohort/testing/world.h"

namespace cohort {

using namespace std::chrono_literals;

/// A router with providers "a", "b", ... in virtual time.
class RouterTest : public ::testing::Test {
 protected:
  Router& make(std::vector<std::string> names, RouterOptions options = {}) {
    std::vector<ProviderOptions> providers;
    for (std::string& name : names) {
      ProviderOptions provider{.name = std::move(name)};
      provider.breaker = breaker;
      provider.breaker.open_jitter_ratio = 0;
      providers.push_back(std::move(provider));
    }
    options.clock = &world.clock;
    options.seed = 1;
    router = Router::make(providers, options).value();
    return *router;
  }
  Router& make(int count, RouterOptions options = {}) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(std::string(1, static_cast<char>('a' + i)));
    return make(std::move(names), std::move(options));
  }
  // Every provider fails, except those named.
  Routed<std::string> ask(const std::string& good, FailureType type = FailureType::kHttp5xx, std::string detail = {}) {
    return router->call([&](const Attempt& attempt) -> std::variant<std::string, Failure> {
      world.clock.advance(10ms);
      ++asked[std::string(attempt.provider)];
      if (good.find(attempt.provider) != std::string::npos) return std::string(attempt.provider);
      return Failure{type, {ErrorCode::kUnavailable, "broken"}, {}, detail};
    });
  }
  void open(const std::string& name) {
    Breaker& its = router->find(name)->breaker();
    for (int i = 0; i < 5; ++i) its.allow().failure(FailureType::kConnect);
    ASSERT_EQ(its.state(), BreakerState::kOpen);
  }

  [[nodiscard]] Breaker& breaker_of(const std::string& name) { return router->find(name)->breaker(); }

  World world;
  BreakerOptions breaker;  ///< Of all providers.
  std::shared_ptr<Router> router;
  std::map<std::string, int> asked;
};

}  // namespace cohort
