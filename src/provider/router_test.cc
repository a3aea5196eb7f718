#include "cohort/provider/router.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cohort/task/sleep.h"
#include "provider/router_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST_F(RouterTest, ABadScoreIsForgottenWhenItIsOld) {
  make(2);
  for (int i = 0; i < 40; ++i) {
    router->find("a")->count(FailureType::kHttp5xx, 10ms);
    router->find("b")->count(FailureType::kSuccess, 10ms);
  }
  const auto share_of_a = [&] {
    int chosen = 0;
    for (int i = 0; i < 200; ++i) chosen += router->select() == 0U ? 1 : 0;
    return chosen;
  };
  const auto use_b = [&] { router->find("b")->count(FailureType::kSuccess, 10ms); };
  EXPECT_EQ(share_of_a(), 0) << "it has failed all the time";
  world.clock.advance(10s);
  use_b();
  EXPECT_EQ(share_of_a(), 0) << "and that is not long ago";
  world.clock.advance(80s);
  use_b();
  EXPECT_GT(share_of_a(), 50) << "nobody has asked it since";
}

TEST_F(RouterTest, AsksAnotherWhenOneFails) {
  make(3);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ask("a").result.value(), "a");
  for (const auto& stats : router->stats()) EXPECT_EQ(stats.concurrent, 0U);
}

TEST_F(RouterTest, NobodyIsAskedTwiceAndNotMoreThanAllowed) {
  make(5, {.max_failover_attempts = 3});
  const auto routed = ask("");
  EXPECT_EQ(routed.end, RouteEnd::kAttemptsExhausted);
  EXPECT_EQ(routed.tries.size(), 3U);
  for (const auto& [name, times] : asked) EXPECT_EQ(times, 1) << name;
  EXPECT_NE(routed.result.error().message.find("attempts_exhausted"), std::string::npos);
  make(2);
  EXPECT_EQ(ask("").tries.size(), 2U) << "there are no more";
}

TEST_F(RouterTest, WhatIsTheRequestsFaultIsNotAskedAgain) {
  make(3);
  const auto routed = ask("", FailureType::kHttp4xx);
  EXPECT_EQ(routed.end, RouteEnd::kNotRetryable);
  EXPECT_EQ(routed.tries.size(), 1U);
  EXPECT_EQ(routed.result.error().message, "broken");
}

TEST_F(RouterTest, AllTriesTogetherHaveABudget) {
  make(3, {.timeout = 100ms});
  std::vector<Duration> given;
  const auto routed = router->call([&](const Attempt& attempt) -> Result<int> {
    given.push_back(attempt.deadline - world.clock.now());
    world.clock.set(attempt.deadline);
    return Error{ErrorCode::kTimedOut, "too slow"};
  });
  EXPECT_EQ(given, (std::vector<Duration>{100ms, 20ms}));
  EXPECT_EQ(routed.end, RouteEnd::kBudgetExhausted);
}

TEST_F(RouterTest, WhenAllAreOpenTheAnswerComesAtOnceWithTheEarliestTime) {
  make(2);
  open("a");
  world.clock.advance(1s);
  open("b");
  const auto routed = ask("ab");
  EXPECT_EQ(routed.end, RouteEnd::kAllOpen);
  EXPECT_EQ(routed.retry_at, world.clock.now() + 4s);
  EXPECT_EQ(routed.result.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(asked.empty());
}

TEST_F(RouterTest, AnOpenOneIsNotAskedAndOneThatIsWellAgainClosesWithTwoRequests) {
  make(5);
  for (int i = 0; i < 30; ++i) {
    for (std::size_t p = 0; p < 5; ++p) router->provider(p).score().record(p != 0, 10ms);
  }
  open("a");
  for (int i = 0; i < 20; ++i) EXPECT_NE(ask("abcde").result.value(), "a");
  world.clock.advance(5s);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ask("abcde").result.value(), "a") << "however low its score";
    world.clock.advance(1min);
  }
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed);
}

TEST_F(RouterTest, DeratedToNothingIsNotCalled) {
  make(2);
  router->find("a")->derate(0, "test", "no trust");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ask("ab").result.value(), "b");
  router->find("b")->derate(0, "test", "nor here", 10s);
  auto routed = ask("ab");
  EXPECT_EQ(routed.end, RouteEnd::kAllOpen);
  EXPECT_EQ(routed.retry_at, world.clock.now() + 10s);
  router->find("b")->derate(0, "test", "for good");
  routed = ask("ab");
  EXPECT_EQ(routed.retry_at, std::nullopt);
  EXPECT_EQ(routed.result.error().message, "no provider may be called before somebody allows it by hand");
  EXPECT_EQ(asked["a"], 0);
}

TEST_F(RouterTest, WhoeverHasBeenCalledOftenEnoughIsTold) {
  router = Router::make({{.name = "a", .rate = Rate{1, 1h, 1}}}, {.clock = &world.clock, .seed = 1}).value();
  EXPECT_TRUE(ask("a").result.ok());
  const auto routed = ask("a");
  EXPECT_EQ(routed.end, RouteEnd::kRateLimited);
  EXPECT_EQ(routed.retry_at, std::nullopt);
}

TEST_F(RouterTest, FullBulkheadsAreTold) {
  make(1);
  std::vector<Bulkhead::Place> places;
  for (int i = 0; i < 50; ++i) places.push_back(router->provider(0).bulkhead().enter());
  const auto routed = ask("a");
  EXPECT_EQ(routed.end, RouteEnd::kBulkheadFull);
  EXPECT_EQ(routed.result.error().code, ErrorCode::kRejected);
}

TEST_F(RouterTest, SecondTriesHaveABudgetOfTheirOwn) {
  make(3, {.retries = {.ratio = 0, .floor_per_second = 0}});
  const auto routed = ask("");
  EXPECT_EQ(routed.end, RouteEnd::kRetriesExhausted);
  EXPECT_EQ(routed.tries.size(), 1U);
}

TEST_F(RouterTest, AFallbackGivesTheValueWhenNobodyCan) {
  make(2);
  const auto routed = router->call([](const Attempt&) -> Result<int> { throw std::runtime_error("broken"); },
                                   [](const Error& error) { return static_cast<int>(error.message.size()); });
  EXPECT_TRUE(routed.result.ok());
  EXPECT_TRUE(routed.is_fallback);
  EXPECT_EQ(routed.end, RouteEnd::kAttemptsExhausted);
}

TEST_F(RouterTest, WhoeverAsksToBeLeftAloneIs) {
  make(2);
  const auto routed = router->call([&](const Attempt& attempt) -> std::variant<int, Failure> {
    if (attempt.number > 1) return 1;
    return Failure{FailureType::kHttp429, {ErrorCode::kRejected, "slow down"}, 7s, {}};
  });
  ASSERT_EQ(routed.tries.size(), 2U);
  const std::string cooling = routed.tries[0].provider;
  asked.clear();
  for (int i = 0; i < 50; ++i) static_cast<void>(ask("ab"));
  EXPECT_EQ(asked[cooling], 0);
  world.clock.advance(7s);
  for (int i = 0; i < 50; ++i) static_cast<void>(ask("ab"));
  EXPECT_GT(asked[cooling], 0);
}

TEST_F(RouterTest, TheSameKindOfAnswerFromTwoIsTheRequestsFault) {
  make(3);
  for (const auto type : {FailureType::kHttp5xx, FailureType::kDecode, FailureType::kUnknown}) {
    for (const char* detail : {"500 cannot divide by zero", ""}) {
      for (int i = 0; i < 60; ++i) static_cast<void>(ask("abc"));
      const auto routed = ask("", type, detail);
      EXPECT_EQ(routed.end, RouteEnd::kNotRetryable);
      EXPECT_EQ(routed.tries.size(), 2U);
    }
  }
  std::uint64_t excused = 0;
  for (const auto& stats : router->stats()) {
    EXPECT_EQ(stats.breaker.window.half_errors, 0U) << stats.name;
    EXPECT_EQ(stats.calls[static_cast<std::size_t>(FailureType::kHttp5xx)], 0U);
    excused += stats.excused;
  }
  EXPECT_EQ(excused, 12U) << "six requests, two providers each";
  // But not a connection that fails, and not different answers.
  EXPECT_EQ(ask("", FailureType::kConnect, "refused").tries.size(), 3U);
  int number = 0;
  const auto different = router->call([&](const Attempt&) -> std::variant<int, Failure> {
    return Failure{FailureType::kHttp5xx, {ErrorCode::kUnavailable, "broken"}, {}, std::to_string(++number)};
  });
  EXPECT_EQ(different.tries.size(), 3U);
  std::uint64_t charged = 0;
  for (const auto& stats : router->stats()) charged += stats.breaker.window.half_errors;
  EXPECT_EQ(charged, 12U) << "all six of them";
}

TEST_F(RouterTest, TheBestIsAskedMost) {
  make(3);
  for (int i = 0; i < 300; ++i) {
    for (std::size_t p = 0; p < 3; ++p) {
      router->provider(p).score().record(p == 0 || world.random.chance(0.6), 10ms);
    }
  }
  std::map<std::size_t, int> chosen;
  for (int i = 0; i < 1000; ++i) ++chosen[router->select().value()];
  EXPECT_GT(chosen[0], 600);
  router->provider(0).derate(0, "test", "no trust");
  chosen.clear();
  for (int i = 0; i < 1000; ++i) ++chosen[router->select().value()];
  EXPECT_EQ(chosen[0], 0);
}

// ---- streams

TEST_F(RouterTest, AStreamFailsOverBeforeItsFirstChunkOnly) {
  make(3);
  std::vector<int> got;
  const auto sink = [&](int chunk) {
    got.push_back(chunk);
    return true;
  };
  const auto streamed = router->call_stream<int>(
      [&](const Attempt& attempt, const auto& emit) -> Result<void> {
        if (attempt.number == 1) return Error{ErrorCode::kUnavailable, "refused"};
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(emit(i));
        return {};
      },
      sink);
  EXPECT_TRUE(streamed.result.ok());
  EXPECT_EQ(got, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(streamed.delivered, 3U);

  int attempts = 0;
  const auto broken = router->call_stream<int>(
      [&](const Attempt&, const auto& emit) -> Result<void> {
        ++attempts;
        emit(1);
        emit(2);
        return Error{ErrorCode::kUnavailable, "reset"};
      },
      sink);
  EXPECT_EQ(broken.end, RouteEnd::kBroken);
  EXPECT_EQ(broken.delivered, 2U);
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(router->find(broken.provider)->stats().calls[static_cast<std::size_t>(FailureType::kConnect)], 1U);
}

TEST_F(RouterTest, AFirstChunkThatIsLateIsATimeOutAndAnUnwantedStreamNone) {
  make(2, {.timeout = 10s, .first_chunk_timeout = 1s});
  std::vector<std::string> got;
  const auto streamed = router->call_stream<std::string>(
      [&](const Attempt& attempt, const auto& emit) -> Result<void> {
        if (attempt.number == 1) world.clock.advance(2s);
        emit(std::string(attempt.provider));
        return {};
      },
      [&](std::string chunk) {
        got.push_back(std::move(chunk));
        return true;
      });
  EXPECT_TRUE(streamed.result.ok());
  EXPECT_EQ(got, (std::vector<std::string>{streamed.provider}));

  const auto unwanted = router->call_stream<int>(
      [&](const Attempt&, const auto& emit) -> Result<void> {
        while (emit(1)) {
        }
        return Error{ErrorCode::kCancelled, "stopped"};
      },
      [](int) { return false; });
  EXPECT_TRUE(unwanted.result.ok());
  EXPECT_EQ(unwanted.delivered, 1U);
  for (const auto& stats : router->stats()) EXPECT_EQ(stats.concurrent, 0U);
}

TEST_F(RouterTest, WorksInCoroutines) {
  make(3);
  auto task = world.executor.submit("calls", "one", [&]() -> Task<std::string> {
    auto routed = co_await router->call_async([&](const Attempt& attempt) -> Task<Result<std::string>> {
      const std::string name(attempt.provider);
      co_await sleep_for(50ms);
      if (name != "b") co_return Error{ErrorCode::kUnavailable, "broken"};
      co_return name;
    });
    co_return routed.result.value();
  });
  EXPECT_EQ(task.await().value, "b");
}

TEST_F(RouterTest, ImpossiblePoolsAreRefused) {
  EXPECT_FALSE(Router::make({}));
  EXPECT_FALSE(Router::make({{.name = "a"}, {.name = "a"}}));
  EXPECT_FALSE(Router::make(std::vector<ProviderOptions>(65)));
  ProviderOptions bad{.name = "bad"};
  bad.breaker.half_open_success_threshold = 9;
  EXPECT_NE(Router::make({bad}).error().message.find("'bad'"), std::string::npos);
}

TEST_F(RouterTest, ManyThreadsMayCallIt) {
  make(4);
  router = Router::make({{.name = "a"}, {.name = "b"}, {.name = "c"}}).value();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (int i = 0; i < 500; ++i) {
        static_cast<void>(router->call([&](const Attempt&) -> Result<int> {
          if (random.chance(0.3)) return Error{ErrorCode::kUnavailable, "broken"};
          return 1;
        }));
        static_cast<void>(router->stats());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& stats : router->stats()) EXPECT_EQ(stats.concurrent, 0U);
}

}  // namespace
}  // namespace cohort
