#pragma once

namespace cohort::internal {

/// Production has no planted bugs. Tests of the tests plant one at a time, see scheduler_storm_test.cc.
struct NoFaults {
  static constexpr bool kKeepPermitOfCancelled = false;
  static constexpr bool kStaleGlobalCheck = false;
  static constexpr bool kIdleKeepsCredit = false;
  static constexpr bool kForgetWake = false;
  static constexpr bool kSettleTwice = false;
  static constexpr int kPortion = 256;  // Steps of work for many tasks that one event does at most.
};

}  // namespace cohort::internal
