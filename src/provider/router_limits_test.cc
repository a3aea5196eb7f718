// Time-outs, deadlines and cancels; whom a failure is charged to; tiers, panic and shadows.

#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "cohort/base/log.h"
#include "cohort/task/sleep.h"
#include "provider/router_test_fixture.h"

namespace cohort {
namespace {

std::uint64_t calls_of(const Provider& provider, FailureType type) {
  return provider.stats().calls[static_cast<std::size_t>(type)];
}

/// Collects what is logged.
class Log final : public LogSink {
 public:
  Log() { set_log_sink(this); }
  ~Log() override { set_log_sink(nullptr); }
  void write(LogLevel, std::string_view, std::string_view message, std::span<const LogField> fields) override {
    text += message;
    for (const LogField& field : fields) text += " " + std::string(field.name) + "=" + field.value;
    text += "\n";
  }
  [[nodiscard]] bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  std::string text;
};

class RouterLimitsTest : public RouterTest {
 protected:
  /// A try that lasts until its deadline.
  Routed<int> hang(const CallOptions& options = {}, FailureType type = FailureType::kTimeout) {
    return router->call(
        [&](const Attempt& attempt) -> std::variant<int, Failure> {
          world.clock.set(attempt.deadline);
          return Failure{type, {ErrorCode::kTimedOut, "hung"}, {}, {}};
        },
        options);
  }
  Routed<int> fail(FailureType type) {
    return router->call([&](const Attempt&) -> std::variant<int, Failure> {
      return Failure{type, {ErrorCode::kUnavailable, "failed"}, {}, {}};
    });
  }
  [[nodiscard]] Time in(Duration duration) const { return world.clock.now() + duration; }
};

// ---- time-outs

TEST_F(RouterLimitsTest, TimeOutsOfThePoolOpenTheBreaker) {
  make(1, {.timeout = 2s});
  for (int i = 0; i < 5; ++i) static_cast<void>(hang());
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  EXPECT_EQ(calls_of(router->provider(0), FailureType::kTimeout), 5U);
}

TEST_F(RouterLimitsTest, ATimeOutAsLongAsThePoolsIsOneOfThePoolWhoeverSetsIt) {
  make(1, {.timeout = 2s});
  for (int i = 0; i < 5; ++i) static_cast<void>(hang(CallOptions().with_deadline(in(2s - 10us))));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
}

TEST_F(RouterLimitsTest, SlowIsFourSecondsOrThePoolsTimeOut) {
  make(1, {.timeout = 2s});
  EXPECT_EQ(breaker_of("a").options().slow_from(), 2s);
  make(1, {.timeout = 10s});
  EXPECT_EQ(breaker_of("a").options().slow_from(), 4s);
  const Log log;
  breaker.slow_call_threshold = 3s;
  make(1, {.timeout = 2s});
  EXPECT_EQ(breaker_of("a").options().slow_from(), 3s);
  EXPECT_TRUE(log.has("slow_call_threshold=3s timeout=2s")) << log.text;
}

TEST_F(RouterLimitsTest, WhatIsCutOffIsNoFailureAndEndsNoRow) {
  make(1, {.timeout = 2s});
  for (int i = 0; i < 4; ++i) static_cast<void>(fail(FailureType::kConnect));
  for (int i = 0; i < 9; ++i) {
    const auto routed = hang(CallOptions().with_deadline(in(100ms)));
    EXPECT_EQ(routed.end, RouteEnd::kBudgetExhausted);
    EXPECT_EQ(routed.tries[0].type, FailureType::kTimeout);
    EXPECT_EQ(routed.result.error().code, ErrorCode::kTimedOut);
  }
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed);
  EXPECT_EQ(breaker_of("a").snapshot().window.half_errors, 8U);
  EXPECT_EQ(router->provider(0).stats().cut_off, 9U);
  static_cast<void>(fail(FailureType::kConnect));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen) << "the row has gone on";
}

TEST_F(RouterLimitsTest, AHungProviderIsFoundThoughAllCallersAreImpatient) {
  make(1, {.timeout = 2s});
  for (int i = 0; i < 9; ++i) static_cast<void>(hang(CallOptions().with_deadline(in(100ms))));
  EXPECT_TRUE(ask("a").result.ok()) << "an answer ends the row";
  for (int i = 0; i < 9; ++i) static_cast<void>(hang(CallOptions().with_deadline(in(100ms))));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed);
  static_cast<void>(hang(CallOptions().with_deadline(in(100ms))));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  // Its probes are cut off as well.
  world.clock.advance(5s);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(breaker_of("a").state(), i == 0 ? BreakerState::kOpen : BreakerState::kHalfOpen);
    static_cast<void>(hang(CallOptions().with_deadline(in(100ms))));
  }
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  EXPECT_EQ(breaker_of("a").snapshot().attempt, 1U);
}

TEST_F(RouterLimitsTest, TheRestOfTheBudgetCutsOffToo) {
  make(2, {.timeout = 1s});
  for (int i = 0; i < 4; ++i) static_cast<void>(hang());
  std::uint64_t full = 0;
  std::uint64_t cut_off = 0;
  for (const auto& stats : router->stats()) {
    full += stats.calls[static_cast<std::size_t>(FailureType::kTimeout)];
    cut_off += stats.cut_off;
  }
  EXPECT_EQ(full, 4U);
  EXPECT_EQ(cut_off, 4U);
}

// ---- deadlines and cancels

TEST_F(RouterLimitsTest, AStopAtTheDeadlineIsATimeOutAndOneBeforeItIsACancel) {
  make(2, {.timeout = 2s});
  EXPECT_EQ(hang({}, FailureType::kCancelled).tries[0].type, FailureType::kTimeout);

  std::stop_source stop;
  const auto routed = router->call(
      [&](const Attempt& attempt) -> Result<int> {
        EXPECT_TRUE(attempt.stop.stop_possible());
        world.clock.advance(50ms);
        stop.request_stop();
        EXPECT_TRUE(attempt.stop.stop_requested());
        return Error{ErrorCode::kTimedOut, "stopped"};  // Some clients call it so.
      },
      CallOptions().with_deadline(in(100ms)).with_stop(stop.get_token()));
  EXPECT_EQ(routed.end, RouteEnd::kCancelled);
  EXPECT_EQ(routed.tries.size(), 1U) << "nobody else is asked";
  EXPECT_EQ(routed.tries[0].type, FailureType::kCancelled);
  EXPECT_EQ(routed.result.error().code, ErrorCode::kCancelled);
}

TEST_F(RouterLimitsTest, NoTryBeginsAfterADeadlineOrACancel) {
  make(3);
  std::stop_source stop;
  int tries = 0;
  const auto fails = [&](const Attempt&) -> Result<int> {
    ++tries;
    world.clock.advance(10ms);
    if (tries == 2) stop.request_stop();
    return Error{ErrorCode::kUnavailable, "failed"};
  };
  EXPECT_EQ(router->call(fails, CallOptions().with_deadline(in(10ms))).end, RouteEnd::kBudgetExhausted);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(router->call(fails, CallOptions().with_stop(stop.get_token())).end, RouteEnd::kCancelled);
  EXPECT_EQ(tries, 2) << "it failed, and was cancelled meanwhile";
  const auto none = router->call(
      fails, [](const Error&) { return 1; }, CallOptions().with_stop(stop.get_token()));
  EXPECT_EQ(none.end, RouteEnd::kCancelled);
  EXPECT_FALSE(none.is_fallback);
  EXPECT_EQ(router->call(fails, CallOptions().with_deadline(in(-1s))).end, RouteEnd::kBudgetExhausted);
  EXPECT_EQ(tries, 2);
}

TEST_F(RouterLimitsTest, ACallInATaskHasTheTasksDeadline) {
  make(1, {.timeout = 10s});
  std::optional<Duration> given;
  const auto body = [&] {
    static_cast<void>(router->call([&](const Attempt& attempt) -> Result<int> {
      given = attempt.deadline - world.clock.now();
      return 1;
    }));
  };
  EXPECT_TRUE(world.executor.submit("g", "t", body, {.run_timeout = 300ms}).await().ok());
  EXPECT_EQ(given, 300ms);
  EXPECT_TRUE(world.executor.submit("g", "t", body).await().ok());
  EXPECT_EQ(given, 10s);
}

TEST_F(RouterLimitsTest, TheEarlierOfTheCallersAndTheTasksDeadlineCounts) {
  make(1, {.timeout = 5s});
  std::optional<Duration> given;
  const auto body = [&] {
    const CallOptions patient = CallOptions().with_deadline(world.clock.now() + 10s);
    static_cast<void>(router->call(
        [&](const Attempt& attempt) -> Result<int> {
          given = attempt.deadline - world.clock.now();
          return 1;
        },
        patient));
  };
  EXPECT_TRUE(world.executor.submit("g", "t", body, {.run_timeout = 2s}).await().ok());
  EXPECT_EQ(given, 2s);
}

TEST_F(RouterLimitsTest, ACoroutineThatHasNotBegunKeepsItsRouterToo) {
  make(1);
  auto task = router->call_async([](const Attempt&) -> Task<Result<int>> { co_return 7; });
  const std::weak_ptr<Router> alive = router;
  router.reset();
  EXPECT_FALSE(alive.expired());
  auto run =
      world.executor.submit("g", "t", [&]() -> Task<int> { co_return (co_await std::move(task)).result.value(); });
  EXPECT_EQ(run.await().value, 7);
}

TEST_F(RouterLimitsTest, ACoroutineHasADeadlineAndAStopToo) {
  make(2, {.timeout = 2s});
  std::stop_source stop;
  auto task = world.executor.submit("g", "t", [&]() -> Task<RouteEnd> {
    auto routed = co_await router->call_async(
        [&](const Attempt& attempt) -> Task<Result<int>> {
          co_await sleep_for(attempt.deadline - world.clock.now());
          co_return Error{ErrorCode::kCancelled, "stopped"};
        },
        CallOptions().with_deadline(world.clock.now() + 100ms).with_stop(stop.get_token()));
    co_return routed.end;
  });
  EXPECT_EQ(task.await().value, RouteEnd::kBudgetExhausted);
  EXPECT_EQ(router->provider(0).stats().cut_off + router->provider(1).stats().cut_off, 1U);
}

TEST_F(RouterLimitsTest, ACallKeepsItsRouterAlive) {
  make(1);
  std::weak_ptr<Router> alive = router;
  const auto routed = router->call([&](const Attempt&) -> Result<int> {
    router.reset();
    EXPECT_FALSE(alive.expired());
    return 7;
  });
  EXPECT_EQ(routed.result.value(), 7);
  EXPECT_TRUE(alive.expired());
}

// ---- streams

TEST_F(RouterLimitsTest, AReaderThatStopsOrThrowsEndsAStreamThatHasSucceeded) {
  make(1, {.timeout = 60s});
  open("a");
  world.clock.advance(5s);
  const auto endless = [&](const Attempt&, const auto& emit) -> Result<void> {
    world.clock.advance(1s);
    while (emit(1)) world.clock.advance(10s);
    return Error{ErrorCode::kCancelled, "its reader has gone"};
  };
  int read = 0;
  EXPECT_TRUE(router->call_stream<int>(endless, [&](int) { return ++read < 3; }).result.ok());
  EXPECT_THROW(router->call_stream<int>(endless, [](int) -> bool { throw std::runtime_error("the sink's"); }),
               std::runtime_error);
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed) << "two probes have succeeded, in a second each";
  EXPECT_EQ(router->provider(0).stats().concurrent, 0U);
  EXPECT_EQ(calls_of(router->provider(0), FailureType::kSuccess), 2U);
  EXPECT_LT(router->provider(0).stats().p99, 2s);
}

TEST_F(RouterLimitsTest, AStreamThatItsCallerEndsIsNotTheProvidersFault) {
  make(2, {.timeout = 60s});
  std::stop_source stop;
  const auto cancelled = router->call_stream<int>(
      [&](const Attempt&, const auto& emit) -> Result<void> {
        emit(1);
        stop.request_stop();
        return Error{ErrorCode::kCancelled, "stopped"};
      },
      [](int) { return true; }, CallOptions().with_stop(stop.get_token()));
  EXPECT_EQ(cancelled.end, RouteEnd::kCancelled);
  EXPECT_EQ(cancelled.delivered, 1U);
  const auto late = router->call_stream<int>(
      [&](const Attempt& attempt, const auto& emit) -> Result<void> {
        emit(1);
        world.clock.set(attempt.deadline);
        return Error{ErrorCode::kTimedOut, "late"};
      },
      [](int) { return true; }, CallOptions().with_deadline(in(5s)));
  EXPECT_EQ(late.end, RouteEnd::kBudgetExhausted);
  std::uint64_t succeeded = 0;
  for (const auto& stats : router->stats()) {
    succeeded += stats.calls[static_cast<std::size_t>(FailureType::kSuccess)];
    EXPECT_EQ(stats.breaker.window.half_errors, 0U);
  }
  EXPECT_EQ(succeeded, 2U);
}

TEST_F(RouterLimitsTest, AStreamMayOutlastThePoolsTimeOut) {
  make(1, {.timeout = 10s});
  open("a");
  world.clock.advance(5s);
  for (int i = 0; i < 2; ++i) {
    const auto streamed = router->call_stream<int>(
        [&](const Attempt&, const auto& emit) -> Result<void> {
          for (int second = 0; second < 45; ++second) {
            emit(second);
            world.clock.advance(1s);
            static_cast<void>(breaker_of("a").would_allow());
          }
          return {};
        },
        [](int) { return true; });
    EXPECT_TRUE(streamed.result.ok());
  }
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed) << "a probe has succeeded with its first chunk";

  const auto ends = [&](ErrorCode code, Duration after, const CallOptions& options) {
    return router
        ->call_stream<int>(
            [&](const Attempt&, const auto& emit) -> Result<void> {
              emit(1);
              world.clock.advance(after);
              return Error{code, "ended"};
            },
            [](int) { return true; }, options)
        .end;
  };
  const auto errors = [&] { return breaker_of("a").snapshot().window.half_errors; };
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(ends(ErrorCode::kTimedOut, 23s, {}), RouteEnd::kBroken) << "it fell silent: that is the provider's fault";
  EXPECT_EQ(errors(), 2U);
  Route cancelled(*router, CallOptions().with_stop(stop.get_token()), Route::Kind::kStream);
  EXPECT_FALSE(cancelled.next());
  std::stop_source later;
  const auto stopped = router->call_stream<int>(
      [&](const Attempt&, const auto& emit) -> Result<void> {
        emit(1);
        world.clock.advance(11s);
        later.request_stop();
        return Error{ErrorCode::kCancelled, "stopped"};
      },
      [](int) { return true; }, CallOptions().with_stop(later.get_token()));
  EXPECT_EQ(stopped.end, RouteEnd::kCancelled);
  EXPECT_LE(errors(), 2U) << "and a reader that goes is nobody's";
}

TEST_F(RouterLimitsTest, AFirstChunkThatThePoolFindsLateIsATimeOut) {
  make(1, {.timeout = 60s, .first_chunk_timeout = 1s});
  const auto silent = [&](const Attempt& attempt, const auto&) -> Result<void> {
    world.clock.set(attempt.first_chunk_deadline);
    return Error{ErrorCode::kTimedOut, "silent"};
  };
  const auto sink = [](int) { return true; };
  for (int i = 0; i < 5; ++i)
    static_cast<void>(router->call_stream<int>(silent, sink, CallOptions().with_deadline(in(30s))));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  make(1, {.timeout = 60s, .first_chunk_timeout = 1s});
  for (int i = 0; i < 9; ++i)
    static_cast<void>(router->call_stream<int>(silent, sink, CallOptions().with_deadline(in(300ms))));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kClosed);
  EXPECT_EQ(router->provider(0).stats().cut_off, 9U);
}

// ---- who is charged

TEST_F(RouterLimitsTest, AnOutageThatUsesUpTheRetriesOpensTheBreakersAllTheSame) {
  breaker.consecutive_failure_threshold = 1000;
  make(3, {.retries = {.ratio = 0, .floor_per_second = 0}});
  for (int i = 0; i < 60; ++i) static_cast<void>(ask("abc"));
  for (int i = 0; i < 200; ++i) static_cast<void>(ask(""));
  for (const auto& stats : router->stats()) EXPECT_EQ(stats.breaker.state, BreakerState::kOpen) << stats.name;
}

TEST_F(RouterLimitsTest, AFailureWithoutASecondOpinionIsOutOfTheRow) {
  make(3, {.retries = {.ratio = 0, .floor_per_second = 0}});
  for (int i = 0; i < 90; ++i) static_cast<void>(ask("abc"));
  for (int i = 0; i < 12; ++i) static_cast<void>(ask(""));
  std::uint64_t charged = 0;
  for (const auto& stats : router->stats()) {
    charged += stats.breaker.window.half_errors;
    EXPECT_EQ(stats.breaker.consecutive_failures, 0U);
  }
  EXPECT_EQ(charged, 24U);
}

TEST_F(RouterLimitsTest, AnOutageDoesNotExcuseItself) {
  breaker.window = {.kind = WindowOptions::Kind::kCalls, .calls = 100};
  make(2);
  for (int i = 0; i < 300; ++i) static_cast<void>(ask("ab"));
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(ask(""));
    world.clock.advance(500ms);
  }
  for (const auto& stats : router->stats()) EXPECT_NE(stats.breaker.state, BreakerState::kClosed) << stats.name;
}

TEST_F(RouterLimitsTest, ExpiredKeysAreAnswersUnlessThePoolSaysOtherwise) {
  make(3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("", FailureType::kHttpAuth).end, RouteEnd::kNotRetryable);
  for (const auto& stats : router->stats()) EXPECT_EQ(stats.breaker.window.calls, 0U);
  make(2, {.auth_is_failure = true});
  EXPECT_EQ(ask("b", FailureType::kHttpAuth).result.value(), "b");
  make(1, {.auth_is_failure = true});
  for (int i = 0; i < 5; ++i) static_cast<void>(ask("", FailureType::kHttpAuth));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
}

TEST_F(RouterLimitsTest, WhatThisProcessLacksIsChargedToNobody) {
  make(2);
  for (int i = 0; i < 20; ++i) {
    const auto routed = router->call([](const Attempt&) -> Result<int> { throw std::bad_alloc(); });
    EXPECT_EQ(routed.tries.size(), 1U) << "nobody else has more memory for us";
    EXPECT_EQ(routed.tries[0].type, FailureType::kLocal);
  }
  for (const auto& stats : router->stats()) {
    EXPECT_EQ(stats.breaker.window.calls, 0U);
    EXPECT_EQ(stats.breaker.consecutive_failures, 0U);
    EXPECT_EQ(stats.score, std::nullopt);
  }
}

TEST_F(RouterLimitsTest, ARetryOfTheCallersIsNoNewRequestToTheBudget) {
  make(1, {.retries = {.ratio = 1, .floor_per_second = 0}});
  EXPECT_TRUE(ask("a").result.ok());
  const auto once = [](const Attempt&) -> Result<int> { return 1; };
  EXPECT_TRUE(router->call(once, CallOptions().as_retry()).result.ok());
  const auto refused = router->call(once, CallOptions().as_retry());
  EXPECT_EQ(refused.end, RouteEnd::kRetriesExhausted);
  EXPECT_EQ(refused.result.error().code, ErrorCode::kRejected);
}

TEST_F(RouterLimitsTest, AHugeRetryAfterIsCappedAtTheLongestOpenTime) {
  make(1);
  static_cast<void>(router->call([&](const Attempt&) -> std::variant<int, Failure> {
    return Failure{FailureType::kHttp429, {ErrorCode::kRejected, "later"}, Duration::max(), {}};
  }));
  EXPECT_EQ(router->provider(0).stats().cooling_for, 300s);
  EXPECT_EQ(ask("a").result.error().message, "no provider may be called; the first again in 5m");
}

TEST_F(RouterLimitsTest, ForcedOpenWithoutAnEndTheMessageNamesNoTime) {
  make(1);
  breaker_of("a").force_open("ann", "maintenance");
  const auto routed = ask("a");
  EXPECT_EQ(routed.end, RouteEnd::kAllOpen);
  EXPECT_EQ(routed.retry_at, std::nullopt);
  EXPECT_EQ(routed.result.error().message, "no provider may be called before somebody allows it by hand");
}

TEST_F(RouterLimitsTest, OptionsThatAreCorrectedAreReported) {
  const Log log;
  make(1, {.max_failover_attempts = 0, .timeout = -1s, .total_budget = 0.5, .top_k = 0});
  EXPECT_TRUE(log.has("options=max_failover_attempts, timeout, total_budget, top_k")) << log.text;
  EXPECT_EQ(router->options().max_failover_attempts, 1U);
}

TEST_F(RouterLimitsTest, OptionsOfProvidersThatAreCorrectedAreReported) {
  const Log log;
  auto made =
      Router::make({{.name = "it", .max_concurrent = 0, .rate = Rate{.count = 0}}}, {.clock = &world.clock}).value();
  made->provider(0).derate(2, "ann", "too much");
  Bulkhead none(0);
  EXPECT_EQ(none.max_concurrent(), 1U);
  ASSERT_TRUE(made->provider(0).breaker().reconfigure({.slow_call_threshold = 1min}, "ann", "slower"));
  for (const char* part : {"max_concurrent is at least 1", "a rate has a count", "a part to derate to",
                           "a bulkhead has", "slow_call_threshold is longer than the time-out"}) {
    EXPECT_TRUE(log.has(part)) << part << "\n" << log.text;
  }
}

TEST_F(RouterLimitsTest, NoMessageShowsATimeThatIsOver) {
  make(1);
  open("a");
  Route route(*router);
  ASSERT_FALSE(route.next());
  world.clock.advance(1min);
  EXPECT_EQ(route.error().message.find("-"), std::string::npos) << route.error().message;
}

TEST_F(RouterLimitsTest, AFailedProbeCountsAtOnce) {
  make(2);
  open("a");
  world.clock.advance(5s);
  ASSERT_TRUE(breaker_of("a").would_allow());
  Route route(*router);
  ASSERT_TRUE(route.next());
  ASSERT_EQ(route.attempt().provider, "a");
  EXPECT_TRUE(route.fail({FailureType::kHttp5xx, {ErrorCode::kUnavailable, "broken"}, {}, {}}));
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen) << "though the request goes on";
  ASSERT_TRUE(route.next());
  route.succeed();
}

TEST_F(RouterLimitsTest, AnswersThatDifferOnlyInADetailThatOneLacksAreAlike) {
  make(3);
  for (int i = 0; i < 60; ++i) static_cast<void>(ask("abc"));
  int tries = 0;
  const auto routed = router->call([&](const Attempt&) -> std::variant<std::string, Failure> {
    return Failure{FailureType::kHttp5xx, {ErrorCode::kUnavailable, "broken"}, {}, ++tries == 1 ? "HTTP 500" : ""};
  });
  EXPECT_EQ(routed.end, RouteEnd::kNotRetryable);
  EXPECT_EQ(routed.tries.size(), 2U);
}

// ---- tiers

class TierTest : public RouterLimitsTest {
 protected:
  void SetUp() override {
    ProviderOptions near{.name = "near", .max_concurrent = 1};
    ProviderOptions beside{.name = "beside", .max_concurrent = 1};
    ProviderOptions far{.name = "far", .tier = 1};
    router = Router::make({far, near, beside}, {.clock = &world.clock, .seed = 1}).value();
  }
  std::string who() { return ask("near beside far").result.value(); }
};

TEST_F(TierTest, TheFirstTierServesAsLongAsOneOfItMayBeCalled) {
  for (int i = 0; i < 100; ++i) EXPECT_NE(who(), "far");
  open("near");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(who(), "beside");
  open("beside");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(who(), "far");
}

TEST_F(TierTest, FullBulkheadsLeaveTheTier) {
  const auto near = router->find("near")->bulkhead().enter();
  EXPECT_EQ(who(), "beside");
  const auto beside = router->find("beside")->bulkhead().enter();
  EXPECT_EQ(who(), "far");
}

TEST_F(TierTest, FailoverGoesThroughTheTierFirst) {
  const auto routed = ask("far");
  EXPECT_EQ(routed.result.value(), "far");
  EXPECT_EQ(routed.tries.size(), 3U);
}

TEST_F(TierTest, ProbesLeadBackToTheTier) {
  open("near");
  open("beside");
  world.clock.advance(7s);
  EXPECT_NE(who(), "far");
  EXPECT_NE(who(), "far");
  for (int i = 0; i < 4; ++i) static_cast<void>(who());
  EXPECT_EQ(breaker_of("near").state(), BreakerState::kClosed);
  EXPECT_EQ(breaker_of("beside").state(), BreakerState::kClosed);
  for (int i = 0; i < 50; ++i) EXPECT_NE(who(), "far");
}

// ---- panic

TEST_F(RouterLimitsTest, WhenMostOfThePoolIsOpenAllAreCalled) {
  make(4, {.panic_share = 0.5});
  std::vector<std::string> reasons;
  router->on_event([&](const ProviderEvent& event) {
    if (event.provider.empty()) reasons.emplace_back(event.reason);
  });
  open("a");
  open("b");
  for (int i = 0; i < 100; ++i) static_cast<void>(ask("abcd"));
  EXPECT_EQ(asked["a"] + asked["b"], 0) << "half is not more than half";
  EXPECT_FALSE(router->in_panic());
  open("c");
  asked.clear();
  for (int i = 0; i < 200; ++i) static_cast<void>(ask("abcd"));
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_GT(asked[name], 20) << name;
  EXPECT_TRUE(router->in_panic());
  EXPECT_EQ(router->panic_calls(), 200U);
  breaker_of("a").force_open("ann", "not this one");
  router->find("b")->derate(0, "ann", "nor this");
  asked.clear();
  for (int i = 0; i < 100; ++i) static_cast<void>(ask("abcd"));
  EXPECT_EQ(asked["a"] + asked["b"], 0) << "what was done by hand counts";
  world.clock.advance(10s);
  for (int i = 0; i < 20; ++i) static_cast<void>(ask("abcd"));
  EXPECT_FALSE(router->in_panic());
  EXPECT_EQ(reasons, (std::vector<std::string>{"panic_began", "panic_ended"}));
}

// ---- shadow

TEST_F(RouterLimitsTest, AShadowChangesNoChoiceAndNoAnswer) {
  breaker.shadow = true;
  make(1);
  for (int i = 0; i < 20; ++i) static_cast<void>(ask(""));
  ASSERT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  router->find("a")->cool_until(in(1s));
  EXPECT_EQ(ask("a").retry_at, in(1s)) << "not when the shadow would close";
}

TEST_F(RouterLimitsTest, AnOpenShadowBlamesTheRequestAsAClosedOneDoes) {
  breaker.shadow = true;
  breaker.consecutive_failure_threshold = 1;
  make(3);
  for (int i = 0; i < 60; ++i) static_cast<void>(ask("abc"));
  for (const char* name : {"a", "b", "c"}) breaker_of(name).allow().failure(FailureType::kConnect);
  ASSERT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  const auto routed = ask("");
  EXPECT_EQ(routed.end, RouteEnd::kNotRetryable);
  EXPECT_EQ(routed.tries.size(), 2U);
}

TEST_F(RouterLimitsTest, AShadowOnlySaysWhatItWouldDo) {
  breaker.shadow = true;
  make(1);
  std::vector<std::string> said;
  router->on_event([&](const ProviderEvent& event) {
    EXPECT_TRUE(event.shadow);
    said.push_back(std::string(event.reason) + " " + std::string(to_string(event.to)));
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("").tries.size(), 1U);
  EXPECT_EQ(breaker_of("a").state(), BreakerState::kOpen);
  EXPECT_EQ(breaker_of("a").snapshot().shadow_passed, 15U);
  world.clock.advance(6s);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask("a").result.ok());
  EXPECT_EQ(said, (std::vector<std::string>{"consecutive_failure_threshold open", "open_is_over half_open",
                                            "probes_succeeded closed"}));
  breaker_of("a").force_open("ann", "by hand it counts");
  EXPECT_EQ(ask("a").end, RouteEnd::kAllOpen);
}

}  // namespace
}  // namespace cohort
