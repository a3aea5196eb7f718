// The smaller parts: kinds of failures, bulkhead, budget, back-off, score, guard, and a provider made of them.

#include "cohort/provider/provider.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "cohort/provider/guard.h"
#include "cohort/provider/retry_budget.h"
#include "cohort/testing/virtual_clock.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(FailureTypeTest, HttpStatuses) {
  EXPECT_EQ(classify_status(200), FailureType::kSuccess);
  EXPECT_EQ(classify_status(302), FailureType::kSuccess);
  EXPECT_EQ(classify_status(404), FailureType::kHttp4xx);
  EXPECT_EQ(classify_status(401), FailureType::kHttpAuth);
  EXPECT_EQ(classify_status(403), FailureType::kHttpAuth);
  EXPECT_EQ(classify_status(408), FailureType::kTimeout);
  EXPECT_EQ(classify_status(429), FailureType::kHttp429);
  EXPECT_EQ(classify_status(500), FailureType::kHttp5xx);
  EXPECT_EQ(classify_status(503), FailureType::kHttp5xx);
  EXPECT_EQ(classify_status(503, true), FailureType::kHttp429);
}

TEST(FailureTypeTest, ErrorsAndExceptions) {
  EXPECT_EQ(classify(Error{ErrorCode::kTimedOut}), FailureType::kTimeout);
  EXPECT_EQ(classify(Error{ErrorCode::kNotFound}), FailureType::kHttp4xx);
  EXPECT_EQ(classify(Error{ErrorCode::kUnavailable}), FailureType::kConnect);
  EXPECT_EQ(classify(Error{ErrorCode::kCancelled}), FailureType::kCancelled);
  const auto of = [](const auto& exception) { return classify(std::make_exception_ptr(exception)); };
  EXPECT_EQ(of(std::system_error(std::make_error_code(std::errc::connection_refused))), FailureType::kConnect);
  EXPECT_EQ(of(std::system_error(std::make_error_code(std::errc::timed_out))), FailureType::kTimeout);
  EXPECT_EQ(of(std::system_error(EMFILE, std::system_category())), FailureType::kLocal);
  EXPECT_EQ(of(std::bad_alloc()), FailureType::kLocal);
  EXPECT_EQ(classify(Error::from_exception(std::make_exception_ptr(std::bad_alloc()))), FailureType::kLocal);
  EXPECT_EQ(of(std::runtime_error("?")), FailureType::kUnknown);
  EXPECT_EQ(of(7), FailureType::kUnknown);
}

TEST(BulkheadTest, LetsSoManyInAndNoMore) {
  Bulkhead bulkhead(2);
  Bulkhead::Place a = bulkhead.enter();
  Bulkhead::Place b = bulkhead.enter();
  EXPECT_TRUE(a && b);
  EXPECT_FALSE(bulkhead.has_room());
  EXPECT_FALSE(bulkhead.enter());
  EXPECT_EQ(bulkhead.rejected(), 1U);
  a.leave();
  EXPECT_TRUE(bulkhead.enter());
  bulkhead.resize(3);
  Bulkhead::Place c = bulkhead.enter();
  Bulkhead::Place d = bulkhead.enter();
  EXPECT_TRUE(c && d);
  EXPECT_EQ(bulkhead.inside(), 3U);
}

TEST(BulkheadTest, MayBeWaitedFor) {
  Bulkhead bulkhead(1);
  Bulkhead::Place place = bulkhead.enter();
  EXPECT_FALSE(bulkhead.enter(1ms));
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        Bulkhead::Place own = bulkhead.enter(600s);
        ASSERT_TRUE(own);
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  place.leave();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bulkhead.inside(), 0U);
}

TEST(RetryBudgetTest, AFifthOfTheTrafficButAtLeastThreeASecond) {
  VirtualClock clock;
  RetryBudget budget({}, clock);
  int retries = 0;
  while (budget.try_retry()) ++retries;
  EXPECT_EQ(retries, 30) << "three a second, over ten seconds";
  clock.advance(10s);
  for (int i = 0; i < 1000; ++i) budget.count_request();
  for (retries = 0; budget.try_retry();) ++retries;
  EXPECT_EQ(retries, 200);
  clock.advance(10s);
  EXPECT_TRUE(budget.try_retry());
}

TEST(RetryBudgetTest, IsRightAtTwoHundredThousandRequestsASecond) {
  VirtualClock clock;
  RetryBudget budget({}, clock);
  for (int second = 0; second < 10; ++second) {
    for (int i = 0; i < 200'000; ++i) budget.count_request();
    if (second < 9) clock.advance(1s);
  }
  EXPECT_EQ(budget.left(), 400'000);
  for (int i = 0; i < 400'000; ++i) ASSERT_TRUE(budget.try_retry()) << i;
  EXPECT_FALSE(budget.try_retry());
  clock.advance(9s);
  EXPECT_EQ(budget.left(), 40'000 - 400'000);
}

TEST(ScoreTest, IsMadeOfSuccessLatencyAndTheRecentPast) {
  Score score;
  for (int i = 0; i < 14; ++i) score.record(true, 10ms);
  EXPECT_EQ(score.value(), std::nullopt) << "too few calls";
  score.record(true, 10ms);
  EXPECT_DOUBLE_EQ(*score.value(), 70);
  score.record(false, 10ms);
  EXPECT_NEAR(*score.value(), 0.6 * 70 - 10.0 / 16, 0.01);
  for (int i = 0; i < 100; ++i) score.record(true, 30s);
  EXPECT_NEAR(*score.value(), 50, 0.1) << "slow costs 20";
  for (int i = 0; i < 100; ++i) score.record(false, 30s);
  EXPECT_DOUBLE_EQ(*score.value(), 1);
  Score restored;
  restored.restore(score.save());
  EXPECT_EQ(restored.value(), 1);
}

TEST(ProviderTest, TellsHowItIsDoing) {
  VirtualClock clock;
  Provider provider({.name = "p", .max_concurrent = 2, .rate = Rate{1, 1s, 1}}, clock, 1);
  for (int i = 0; i < 90; ++i) provider.count(FailureType::kSuccess, 100ms);
  for (int i = 0; i < 10; ++i) provider.count(FailureType::kTimeout, 10s);
  Bulkhead::Place place = provider.bulkhead().enter();
  EXPECT_TRUE(provider.take_token(clock.now()));
  EXPECT_FALSE(provider.take_token(clock.now()));
  std::vector<ProviderEvent> events;
  provider.on_event([&](const ProviderEvent& event) {
    events.push_back(event);
    throw std::runtime_error("a listener's trouble is its own");
  });
  provider.derate(0.25, "alice", "invoice unpaid", 10s);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].provider, provider.name());
  EXPECT_EQ(events[0].reason, "derated");
  EXPECT_EQ(events[0].derated_to, 0.25);
  EXPECT_EQ(events[0].actor, "alice");
  EXPECT_EQ(events[0].text, "invoice unpaid");
  EXPECT_EQ(events[0].expires_in, 10s);
  provider.breaker().force_open("bob", "maintenance");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].provider, provider.name());
  EXPECT_EQ(events[1].to, BreakerState::kForcedOpen);
  EXPECT_EQ(events[1].actor, "bob");
  provider.breaker().release("bob", "done");
  provider.cool_until(clock.now() + 2s);
  const ProviderStats stats = provider.stats();
  EXPECT_EQ(stats.calls[static_cast<std::size_t>(FailureType::kTimeout)], 10U);
  EXPECT_NEAR(static_cast<double>(stats.p50.count()), 100e6, 15e6);
  EXPECT_NEAR(static_cast<double>(stats.p95.count()), 10e9, 1.5e9);
  EXPECT_EQ(stats.concurrent, 1U);
  EXPECT_EQ(stats.rate_rejected, 1U);
  EXPECT_EQ(stats.derated_to, 0.25);
  EXPECT_EQ(stats.cooling_for, 2s);
  Provider restored({.name = "p"}, clock, 1);
  restored.restore(provider.save());
  EXPECT_EQ(restored.stats().cooling_for, 2s);
  clock.advance(10s);
  EXPECT_EQ(provider.stats().derated_to, 1);
  EXPECT_EQ(provider.stats().cooling_for, 0s);
}

// ---- guard

class GuardTest : public ::testing::Test {
 protected:
  Guard guard() {
    Guard guard;
    guard.breaker = breaker;
    guard.bulkhead = bulkhead;
    guard.clock = &clock;
    guard.sleep = [this](Duration duration) {
      slept += duration;
      clock.advance(duration);
    };
    guard.retry.jitter = 0;
    return guard;
  }
  VirtualClock clock;
  std::shared_ptr<Breaker> breaker = std::make_shared<Breaker>(BreakerOptions(), clock, 1);
  std::shared_ptr<Bulkhead> bulkhead = std::make_shared<Bulkhead>(1);
  Duration slept{0};
};

TEST_F(GuardTest, TriesAgainWhatMayPass) {
  Guard with_retries = guard();
  with_retries.retry.max_retries = 3;
  with_retries.timeout = 2s;
  int calls = 0;
  const Result<int> answer = guarded(with_retries, [&](Time deadline) -> Result<int> {
    EXPECT_EQ(deadline, clock.now() + 2s);
    EXPECT_FALSE(bulkhead->has_room());
    if (++calls < 3) return Error{ErrorCode::kUnavailable, "not yet"};
    return 7;
  });
  EXPECT_EQ(*answer, 7);
  EXPECT_EQ(slept, 300ms);
  EXPECT_EQ(breaker->snapshot().window.half_errors, 4U);
  EXPECT_TRUE(bulkhead->has_room());
}

TEST_F(GuardTest, AllTriesTogetherHaveATimeAndTheLastRealErrorIsTold) {
  Guard limited = guard();
  limited.retry = {.max_retries = 100, .backoff = 1s, .multiplier = 1, .jitter = 0};
  limited.timeout = 2s;
  limited.total_timeout = 5s;
  int calls = 0;
  const Time last = clock.now() + 5s;
  const auto hangs = [&](Time deadline) -> Result<int> {
    EXPECT_LE(deadline, last);
    clock.set(deadline);
    return Error{ErrorCode::kTimedOut, "hung " + std::to_string(++calls)};
  };
  EXPECT_EQ(guarded(limited, hangs).error().message, "hung 2") << "2 s, a wait of 1 s, 2 s: that is all there is";
  EXPECT_EQ(clock.now(), last);

  Guard opening = guard();
  opening.retry = {.max_retries = 100, .backoff = 1ms, .multiplier = 1, .jitter = 0};
  const auto fails = [&](Time) -> Result<int> { return Error{ErrorCode::kUnavailable, "refused"}; };
  EXPECT_EQ(guarded(opening, fails).error().message, "refused") << "and not that the breaker is open by now";
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
}

TEST_F(GuardTest, AllTheTimeForOneTryIsNotLittle) {
  Guard equal = guard();
  equal.timeout = equal.total_timeout = 2s;
  const auto hangs = [&](Time deadline) -> Result<int> {
    clock.set(deadline);
    return Error{ErrorCode::kTimedOut, "hung"};
  };
  for (int i = 0; i < 5; ++i) static_cast<void>(guarded(equal, hangs));
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
}

TEST_F(GuardTest, DoesNotTryAgainWhatIsTheCallersFaultOrBeyondTheBudget) {
  Guard with_retries = guard();
  with_retries.retry.max_retries = 3;
  int calls = 0;
  const auto wrong = [&](Time) -> Result<int> {
    ++calls;
    return Error{ErrorCode::kInvalid, "wrong"};
  };
  EXPECT_EQ(guarded(with_retries, wrong).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(calls, 1);
  with_retries.budget = std::make_shared<RetryBudget>(RetryBudget::Options{.ratio = 0, .floor_per_second = 0}, clock);
  calls = 0;
  const auto thrown = [&](Time) -> Result<int> {
    ++calls;
    throw std::runtime_error("broken");
  };
  EXPECT_EQ(guarded(with_retries, thrown).error().message, "broken");
  EXPECT_EQ(calls, 1);
}

TEST_F(GuardTest, RefusesAtOnceWhenItIsOpenFullOrTooFast) {
  const auto never = [](Time) -> Result<int> {
    ADD_FAILURE() << "it was called";
    return 1;
  };
  {
    Bulkhead::Place place = bulkhead->enter();
    EXPECT_EQ(guarded(guard(), never).error().code, ErrorCode::kRejected);
  }
  Guard with_rate = guard();
  with_rate.rate = [] { return false; };
  EXPECT_EQ(guarded(with_rate, never).error().code, ErrorCode::kRejected);
  breaker->force_open("test", "test");
  EXPECT_EQ(guarded(guard(), never).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace cohort
