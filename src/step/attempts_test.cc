#include "cohort/step/attempts.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "cohort/step/outcome.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

const Error kPasses{ErrorCode::kUnavailable, "not now"};
const Error kStays{ErrorCode::kInvalid, "never"};
const Time kStart = Time(1h);

StepOptions options_with(std::uint32_t retries) {
  return {.timeout = 10s, .retry = {.max_retries = retries, .backoff = 1s, .max_backoff = 3s, .jitter = 0}};
}

TEST(AttemptsTest, AreAsManyAsAllowedWithLongerAndLongerWaits) {
  Random random(1);
  const StepOptions options = options_with(2);
  Attempts attempts(options, kStart);
  EXPECT_EQ(attempts.number(), 1U);
  EXPECT_EQ(attempts.deadline(), kStart + 10s);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart, random), kStart + 1s);
  EXPECT_EQ(attempts.number(), 2U);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart + 1s, random), kStart + 3s);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart + 3s, random), std::nullopt);
  EXPECT_EQ(attempts.number(), 3U);
}

TEST(AttemptsTest, EndWithAnErrorThatStays) {
  Random random(1);
  const StepOptions options = options_with(5);
  Attempts attempts(options, kStart);
  EXPECT_EQ(attempts.after_failure(kStays, kStart, random), std::nullopt);
}

TEST(AttemptsTest, WhoKnowsBetterDecides) {
  Random random(1);
  StepOptions options = options_with(5);
  options.retry_if = [](const Error& error) { return error.code == ErrorCode::kInvalid; };
  Attempts attempts(options, kStart);
  EXPECT_NE(attempts.after_failure(kStays, kStart, random), std::nullopt);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart, random), std::nullopt);
  options.retry_if = [](const Error&) -> bool { throw std::runtime_error("?"); };
  EXPECT_EQ(Attempts(options, kStart).after_failure(kPasses, kStart, random), std::nullopt);
}

TEST(AttemptsTest, NeverGoPastTheDeadline) {
  Random random(1);
  const StepOptions options = options_with(5);
  Attempts attempts(options, kStart, kStart + 1500ms);
  EXPECT_EQ(attempts.deadline(), kStart + 1500ms);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart + 400ms, random), kStart + 1400ms);
  EXPECT_EQ(attempts.after_failure(kPasses, kStart + 1450ms, random), std::nullopt);
}

TEST(OutcomeTest, OfAnErrorIsByItsCode) {
  EXPECT_EQ(outcome_of({ErrorCode::kTimedOut, ""}), Outcome::kTimedOut);
  EXPECT_EQ(outcome_of({ErrorCode::kCancelled, ""}), Outcome::kCancelled);
  EXPECT_EQ(outcome_of({ErrorCode::kRejected, ""}), Outcome::kRejected);
  EXPECT_EQ(outcome_of({ErrorCode::kInternal, ""}), Outcome::kFailed);
  EXPECT_EQ(to_string(Outcome::kUpstreamFailed), "upstream_failed");
}

}  // namespace
}  // namespace cohort
