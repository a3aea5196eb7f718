#include "cohort/base/error.h"

#include <cerrno>
#include <ostream>
#include <utility>

namespace cohort {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid: return "invalid";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kExists: return "exists";
    case ErrorCode::kRejected: return "rejected";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kTimedOut: return "timed out";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kEnded: return "ended";
    case ErrorCode::kStale: return "stale";
    case ErrorCode::kConflict: return "conflict";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

bool Error::retryable() const {
  return code == ErrorCode::kRejected || code == ErrorCode::kTimedOut || code == ErrorCode::kUnavailable;
}

std::string Error::to_string() const {
  std::string text(cohort::to_string(code));
  if (!message.empty()) text.append(": ").append(message);
  return text;
}

Error Error::from_exception(std::exception_ptr exception) {
  Error error{.code = ErrorCode::kInternal, .message = "an exception that is not a std::exception", .cause = {}};
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    error.message = e.what();
  } catch (...) {
    // The message above already says all that is known of it.
  }
  error.cause = std::move(exception);
  return error;
}

bool is_shortage(int error_number) {
  switch (error_number) {
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
    case ENOBUFS: return true;
    default: return false;
  }
}

std::ostream& operator<<(std::ostream& out, ErrorCode code) { return out << to_string(code); }
std::ostream& operator<<(std::ostream& out, const Error& error) { return out << error.to_string(); }

}  // namespace cohort
