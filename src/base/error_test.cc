#include "cohort/base/error.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace cohort {
namespace {

TEST(ErrorTest, SaysItsCodeAndItsMessage) {
  EXPECT_EQ((Error{ErrorCode::kNotFound, "no group 'a'", {}}.to_string()), "not found: no group 'a'");
  EXPECT_EQ((Error{ErrorCode::kEnded, "", {}}.to_string()), "ended");
}

TEST(ErrorTest, KnowsWhatMayPassLater) {
  for (const ErrorCode code : {ErrorCode::kRejected, ErrorCode::kTimedOut, ErrorCode::kUnavailable}) {
    EXPECT_TRUE((Error{code, "", {}}.retryable())) << code;
  }
  for (const ErrorCode code : {ErrorCode::kInvalid, ErrorCode::kNotFound, ErrorCode::kExists, ErrorCode::kCancelled,
                               ErrorCode::kEnded, ErrorCode::kStale, ErrorCode::kConflict, ErrorCode::kInternal}) {
    EXPECT_FALSE((Error{code, "", {}}.retryable())) << code;
  }
}

TEST(ErrorTest, KeepsTheExceptionItWasMadeOf) {
  const Error error = Error::from_exception(std::make_exception_ptr(std::out_of_range("too far")));
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_EQ(error.message, "too far");
  EXPECT_THROW(std::rethrow_exception(error.cause), std::out_of_range);
  EXPECT_FALSE(Error::from_exception(std::make_exception_ptr(5)).message.empty());
}

}  // namespace
}  // namespace cohort
