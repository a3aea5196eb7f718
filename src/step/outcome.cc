#include "cohort/step/outcome.h"

namespace cohort {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk: return "ok";
    case Outcome::kFallback: return "fallback";
    case Outcome::kSkipped: return "skipped";
    case Outcome::kFailed: return "failed";
    case Outcome::kTimedOut: return "timed_out";
    case Outcome::kCancelled: return "cancelled";
    case Outcome::kRejected: return "rejected";
    case Outcome::kUpstreamFailed: return "upstream_failed";
  }
  return "failed";
}

Outcome outcome_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kTimedOut: return Outcome::kTimedOut;
    case ErrorCode::kCancelled: return Outcome::kCancelled;
    case ErrorCode::kRejected: return Outcome::kRejected;
    default: return Outcome::kFailed;
  }
}

}  // namespace cohort
