#include "cohort/provider/breaker.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/testing/virtual_clock.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class BreakerTest : public ::testing::Test {
 protected:
  Breaker& make(BreakerOptions options = {}) {
    options.open_jitter_ratio = 0;
    EXPECT_EQ(options.check().ok() ? "" : options.check().error().message, "");
    breaker = std::make_unique<Breaker>(options, clock, 1);
    breaker->on_event([this](const BreakerEvent& event) { events.push_back(event); });
    return *breaker;
  }
  void calls(int count, FailureType type, Duration latency = 10ms) {
    for (int i = 0; i < count; ++i) {
      Permit permit = breaker->allow();
      ASSERT_TRUE(permit);
      permit.finish(type, latency);
    }
  }
  void open() {
    calls(5, FailureType::kConnect);
    ASSERT_EQ(breaker->state(), BreakerState::kOpen);
  }
  void half_open() {
    open();
    clock.advance(5s);
  }

  VirtualClock clock;
  std::vector<BreakerEvent> events;
  std::unique_ptr<Breaker> breaker;
};

// ---- what opens it

TEST_F(BreakerTest, FiveFailuresInARowOpenIt) {
  make();
  calls(4, FailureType::kTimeout);
  calls(1, FailureType::kSuccess);
  calls(4, FailureType::kTimeout);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  calls(1, FailureType::kTls);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].reason, "consecutive_failure_threshold");
  EXPECT_EQ(events[0].consecutive_failures, 5U);
  EXPECT_EQ(events[0].open_duration, 5s);
}

TEST_F(BreakerTest, HalfOfTwentyCallsInErrorOpenIt) {
  make({.consecutive_failure_threshold = 1000});
  for (int i = 0; i < 9; ++i) {
    calls(1, FailureType::kHttp5xx);
    calls(1, FailureType::kSuccess);
  }
  calls(1, FailureType::kHttp5xx);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed) << "19 calls are too few";
  calls(1, FailureType::kSuccess);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(events[0].reason, "error_rate_threshold");
  EXPECT_DOUBLE_EQ(events[0].error_rate, 0.5);
}

TEST_F(BreakerTest, SlowSuccessesOpenIt) {
  make();
  calls(8, FailureType::kSuccess);
  calls(11, FailureType::kSuccess, 4s);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  calls(1, FailureType::kSuccess, 4s);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(events[0].reason, "slow_rate_threshold");
}

TEST_F(BreakerTest, WhatIsTooMuchCountsHalfAndNotInARow) {
  make();
  calls(20, FailureType::kHttp429);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen) << "20 halves of 20 are a half";
  make({.error_rate_threshold = 0.6});
  calls(1000, FailureType::kHttp429);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, AnswersAndCancelledCallsCountNothing) {
  make();
  calls(1000, FailureType::kHttp4xx);
  calls(1000, FailureType::kCancelled);
  EXPECT_EQ(breaker->snapshot().window.calls, 0U);
  calls(4, FailureType::kTimeout);
  calls(1, FailureType::kCancelled);
  EXPECT_EQ(breaker->snapshot().consecutive_failures, 4U) << "a cancelled call says nothing";
  calls(1, FailureType::kHttp4xx);
  EXPECT_EQ(breaker->snapshot().consecutive_failures, 0U) << "a 404 says that somebody is there";
}

TEST_F(BreakerTest, OldErrorsAreForgotten) {
  make({.consecutive_failure_threshold = 1000});
  calls(19, FailureType::kHttp5xx);
  clock.advance(10s);
  calls(19, FailureType::kHttp5xx);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, RulesCanBeChanged) {
  BreakerOptions options;
  options.rules[FailureType::kHttp429] = {.weight = 1, .consecutive = true};
  make(options);
  calls(5, FailureType::kHttp429);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
}

// ---- open

TEST_F(BreakerTest, OpenLetsNothingThroughAndSaysWhenToAskAgain) {
  make();
  open();
  Permit permit = breaker->allow();
  EXPECT_FALSE(permit);
  EXPECT_EQ(permit.retry_at(), clock.now() + 5s);
  EXPECT_FALSE(breaker->would_allow());
  clock.advance(5s - 1ns);
  EXPECT_FALSE(breaker->allow());
  clock.advance(1ns);
  EXPECT_TRUE(breaker->would_allow());
  EXPECT_EQ(breaker->state(), BreakerState::kOpen) << "a question changes nothing";
  EXPECT_TRUE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen);
}

TEST_F(BreakerTest, EachFailedProbeDoublesTheTimeUpToTheMost) {
  make({.open_max = 30s});
  open();
  for (const Duration wanted : {5s, 10s, 20s, 30s, 30s}) {
    EXPECT_EQ(breaker->allow().retry_at() - clock.now(), wanted);
    clock.advance(wanted);
    breaker->allow().failure(FailureType::kConnect);
  }
  clock.advance(30s);
  for (int i = 0; i < 2; ++i) breaker->allow().success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  open();
  EXPECT_EQ(breaker->allow().retry_at() - clock.now(), 5s) << "it begins anew";
}

TEST_F(BreakerTest, JitterSpreadsTheTime) {
  VirtualClock other;
  Duration shortest = 1h;
  Duration longest = 0s;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Breaker jittered({}, other, seed);
    for (int i = 0; i < 5; ++i) jittered.allow().failure(FailureType::kDns);
    const Duration wait = jittered.allow().retry_at() - other.now();
    shortest = std::min(shortest, wait);
    longest = std::max(longest, wait);
  }
  EXPECT_GE(shortest, 4s);
  EXPECT_LE(longest, 6s);
  EXPECT_GT(longest - shortest, 1500ms);
}

// ---- half open

TEST_F(BreakerTest, TwoProbesThatSucceedCloseIt) {
  make();
  half_open();
  Permit first = breaker->allow();
  Permit second = breaker->allow();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first.is_probe());
  EXPECT_FALSE(breaker->allow()) << "two at a time";
  first.success(1ms);
  Permit third = breaker->allow();
  EXPECT_TRUE(third) << "one that has succeeded gives its place to the next";
  EXPECT_FALSE(breaker->allow());
  second.success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  third.failure(FailureType::kConnect);
  EXPECT_EQ(breaker->snapshot().window.calls, 0U) << "which comes too late";
}

TEST_F(BreakerTest, OneProbeThatFailsOpensItAgain) {
  make();
  half_open();
  Permit first = breaker->allow();
  Permit second = breaker->allow();
  first.failure(FailureType::kHttp5xx);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(events.back().attempt, 1U);
  second.success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen) << "a late answer decides nothing";
}

TEST_F(BreakerTest, ASlowSuccessIsAFailedProbeAndA404ASuccessfulOne) {
  make();
  half_open();
  breaker->allow().success(5s);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  clock.advance(10s);
  for (int i = 0; i < 2; ++i) breaker->allow().failure(FailureType::kHttp4xx, 1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed) << "traffic of nothing but 404 closes it";
}

TEST_F(BreakerTest, AbandonedProbesAnd429GiveTheirPlaceBack) {
  make();
  half_open();
  for (int i = 0; i < 10; ++i) {
    Permit dropped = breaker->allow();
    EXPECT_TRUE(dropped);
  }
  for (int i = 0; i < 10; ++i) breaker->allow().failure(FailureType::kHttp429);
  for (int i = 0; i < 10; ++i) breaker->allow().failure(FailureType::kCancelled);
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen);
  for (int i = 0; i < 2; ++i) breaker->allow().success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, AProbeThatHasNotEndedByItsDeadlineHasFailed) {
  make();
  half_open();
  Permit lost = breaker->allow(clock.now() + 2s);
  EXPECT_FALSE(breaker->allow(clock.now())) << "no time, no probe";
  clock.advance(2s);
  EXPECT_FALSE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(events.back().reason, "probes_failed");
  EXPECT_EQ(events.back().attempt, 1U);
  lost.failure(FailureType::kTimeout);
  EXPECT_EQ(breaker->snapshot().attempt, 1U) << "which counts once";
}

TEST_F(BreakerTest, UndecidedForTooLongItWaitsForTheLastProbeAndOpens) {
  make({.permitted_calls_in_half_open = 3, .half_open_success_threshold = 3, .half_open_failure_threshold = 2});
  half_open();
  breaker->allow().failure(FailureType::kConnect);
  Permit slow = breaker->allow(clock.now() + 60s);
  clock.advance(45s);
  EXPECT_FALSE(breaker->allow(clock.now() + 1s)) << "they would come too late";
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen) << "the probe has time until 60 s";
  slow.success(1ms);
  EXPECT_FALSE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(events.back().reason, "half_open_timeout");
}

TEST_F(BreakerTest, NothingBut429DoesNotKeepItHalfOpen) {
  make();
  half_open();
  for (int i = 0; i < 100; ++i) {
    if (Permit permit = breaker->allow()) permit.failure(FailureType::kHttp429);
    clock.advance(1s);
  }
  EXPECT_EQ(breaker->snapshot().attempt, 2U) << "30 s half open, 10 s open, 30 s half open, 20 s open";
}

TEST_F(BreakerTest, OneRequestAMinuteClosesIt) {
  make();
  half_open();
  for (int i = 0; i < 2; ++i) {
    Permit permit = breaker->allow();
    ASSERT_TRUE(permit) << i;
    clock.advance(1s);
    permit.success(1s);
    EXPECT_EQ(breaker->snapshot().attempt, 0U);
    clock.advance(59s);
  }
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, ASuccessCountsForTenMinutes) {
  make();
  half_open();
  breaker->allow().success(1ms);
  clock.advance(10min);
  breaker->allow().success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen);
  clock.advance(10min - 1ns);
  breaker->allow().success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, A429BesideASuccessDoesNotCountWhenTheSuccessHasExpired) {
  for (const bool success_first : {true, false}) {
    make();
    half_open();
    for (const bool success : {success_first, !success_first}) {
      breaker->allow().finish(success ? FailureType::kSuccess : FailureType::kHttp429, 1ms);
    }
    clock.advance(20min);
    EXPECT_TRUE(breaker->allow()) << success_first;
    EXPECT_EQ(breaker->snapshot().attempt, 0U);
  }
}

TEST_F(BreakerTest, OnlyTakenSlotsRefuseAProviderThatIsWellAgain) {
  for (const Duration between : {Duration(10ms), Duration(100ms), Duration(1s), Duration(31s), Duration(60s)}) {
    make();
    half_open();
    std::vector<std::pair<Time, Permit>> out;
    int refused = 0;
    for (int i = 0; i < 100 && breaker->state() != BreakerState::kClosed; ++i) {
      std::erase_if(out,
                    [&](auto& each) { return each.first <= clock.now() ? each.second.success(500ms), true : false; });
      Permit permit = breaker->allow(clock.now() + 10s);
      if (permit) {
        out.emplace_back(clock.now() + 500ms, std::move(permit));
      } else {
        ++refused;
        EXPECT_FALSE(out.empty()) << "after " << i;
      }
      clock.advance(between);
    }
    EXPECT_EQ(breaker->state(), BreakerState::kClosed);
    EXPECT_LE(refused, 500ms / between);
    EXPECT_EQ(events.back().attempt, 0U);
    events.clear();
  }
}

TEST_F(BreakerTest, AFlappingProviderIsOpenMostOfTheTime) {
  for (const Duration between : {Duration(100ms), Duration(1s), Duration(10s), Duration(60s)}) {
    make();
    half_open();
    Duration open_for{0};
    int calls_made = 0;
    const Time end = clock.now() + 6h;
    while (clock.now() < end) {
      if (Permit permit = breaker->allow()) {
        permit.finish(++calls_made % 2 == 0 ? FailureType::kHttp5xx : FailureType::kSuccess, 1ms);
      }
      clock.advance(between);
      if (breaker->state() == BreakerState::kOpen) open_for += between;
    }
    EXPECT_GT(open_for, 3h) << std::chrono::duration<double>(between).count() << " s";
  }
}

TEST_F(BreakerTest, AReconfigurationThatMeetsTheProbesClosesIt) {
  make();
  half_open();
  breaker->allow().success(1ms);
  BreakerOptions options = breaker->options();
  options.half_open_success_threshold = 1;
  ASSERT_TRUE(breaker->reconfigure(options));
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, AProbeWithoutADeadlineHasTheLongerOfPeriodAndTimeOut) {
  make({.call_timeout = 2min});
  half_open();
  Permit probe = breaker->allow();
  clock.advance(2min - 1ns);
  EXPECT_TRUE(breaker->allow());
  probe.success(1ms);
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen);
  probe = breaker->allow();
  clock.advance(2min);
  EXPECT_FALSE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
}

TEST_F(BreakerTest, AWindowThatCannotHoldTheLeastNumberOfCallsIsRefused) {
  BreakerOptions options{.min_calls = 20'000};
  options.window.buckets = 1;
  EXPECT_NE(options.check().error().message.find("min_calls"), std::string::npos);
  EXPECT_TRUE(Breaker(options, clock).options().check());
  options.window.buckets = 2;
  EXPECT_TRUE(options.check());
}

TEST_F(BreakerTest, NobodyAskingIsNoReasonToOpen) {
  make();
  breaker->force_open("ann", "maintenance");
  breaker->release("ann", "over");
  ASSERT_EQ(breaker->state(), BreakerState::kHalfOpen);
  clock.advance(1h);
  EXPECT_TRUE(breaker->would_allow());
  EXPECT_TRUE(breaker->allow());
}

// ---- late answers

TEST_F(BreakerTest, AnAnswerOfAnEarlierStateCountsNowhere) {
  make();
  std::vector<Permit> early;
  for (int i = 0; i < 20; ++i) early.push_back(breaker->allow());
  half_open();
  for (int i = 0; i < 2; ++i) breaker->allow().success(1ms);
  ASSERT_EQ(breaker->state(), BreakerState::kClosed);
  for (Permit& permit : early) permit.failure(FailureType::kTimeout);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  EXPECT_EQ(breaker->snapshot().window.calls, 0U);
}

// ---- by hand

TEST_F(BreakerTest, ItCanBeForcedWithReasonActorAndExpiry) {
  make();
  breaker->force_open("ann", "maintenance", 10s);
  EXPECT_FALSE(breaker->allow());
  EXPECT_EQ(events.back().actor, "ann");
  EXPECT_EQ(events.back().text, "maintenance");
  EXPECT_EQ(events.back().expires_in, 10s);
  clock.advance(10s);
  EXPECT_TRUE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kHalfOpen) << "it is probed first";

  breaker->force_closed("ann", "I know better");
  calls(100, FailureType::kConnect);
  EXPECT_EQ(breaker->state(), BreakerState::kForcedClosed);
  EXPECT_EQ(breaker->snapshot().window.calls, 100U) << "it measures all the same";
  breaker->release("ann", "I do not");
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  calls(1, FailureType::kConnect);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed) << "it begins anew";

  breaker->disable("bob", "not needed", 1s);
  calls(100, FailureType::kConnect);
  EXPECT_EQ(breaker->state(), BreakerState::kDisabled);
  clock.advance(1s);
  EXPECT_TRUE(breaker->allow());
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
  EXPECT_EQ(events.back().reason, "control_expired");
}

TEST_F(BreakerTest, ItCanBeReconfiguredWithoutLosingWhatItHasMeasured) {
  make({.consecutive_failure_threshold = 1000});
  calls(6, FailureType::kHttp5xx);
  calls(14, FailureType::kSuccess);
  BreakerOptions options = breaker->options();
  options.error_rate_threshold = 0.3;
  ASSERT_TRUE(breaker->reconfigure(options, "ann", "stricter"));
  EXPECT_EQ(events.back().reason, "reconfigured");
  calls(1, FailureType::kHttp5xx);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  options.window.buckets = 3;
  EXPECT_EQ(breaker->reconfigure(options).error().code, ErrorCode::kInvalid);
}

TEST_F(BreakerTest, AWeightThatCannotBeKeptIsRefused) {
  BreakerOptions options;
  options.rules[FailureType::kHttp429].weight = 0.3;
  EXPECT_EQ(options.check().error().message, "rules[http_429].weight is 0.3; it must be 0, 0.5 or 1");
}

TEST_F(BreakerTest, ImpossibleOptionsAreRefusedWithTheNamesOfTheFields) {
  BreakerOptions options{.error_rate_threshold = 1.5,
                         .open_base = 10s,
                         .open_max = 5s,
                         .permitted_calls_in_half_open = 2,
                         .half_open_success_threshold = 3};
  const std::string text = options.check().error().message;
  for (const char* field : {"error_rate_threshold", "open_base", "open_max", "half_open_success_threshold",
                            "permitted_calls_in_half_open"}) {
    EXPECT_NE(text.find(field), std::string::npos) << field << " in: " << text;
  }
  EXPECT_EQ(text.find("slow_rate"), std::string::npos);
  EXPECT_TRUE(BreakerOptions().check());
  EXPECT_TRUE(Breaker(options, clock).options().check()) << "in code they are corrected";
}

TEST_F(BreakerTest, ItsStateCanBeSavedAndRestored) {
  make();
  half_open();
  breaker->allow().failure(FailureType::kConnect);
  clock.advance(4s);
  const Breaker::Saved saved = breaker->save();
  EXPECT_EQ(saved.open_for, 6s);
  VirtualClock other;
  Breaker restored({.open_jitter_ratio = 0}, other, 1);
  restored.restore(saved);
  EXPECT_EQ(restored.state(), BreakerState::kOpen);
  other.advance(6s);
  restored.allow().failure(FailureType::kConnect);
  EXPECT_EQ(restored.allow().retry_at() - other.now(), 20s) << "its back-off goes on";
  breaker->force_open("ann", "maintenance", 10s);
  restored.restore(breaker->save());
  EXPECT_EQ(restored.state(), BreakerState::kForcedOpen);
  other.advance(10s);
  EXPECT_TRUE(restored.allow()) << "what was forced expires all the same";
  restored.restore({.state = static_cast<BreakerState>(7), .open_for = Duration::max()});
  EXPECT_EQ(restored.state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, AListenerMayCallBackAndThrow) {
  make();
  int heard = 0;
  breaker->on_event([&](const BreakerEvent&) {
    ++heard;
    EXPECT_FALSE(breaker->allow());
    static_cast<void>(breaker->snapshot());
    throw std::runtime_error("ignored");
  });
  open();
  EXPECT_EQ(heard, 1);
}

}  // namespace
}  // namespace cohort
