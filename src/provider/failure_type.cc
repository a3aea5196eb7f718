#include "cohort/provider/failure_type.h"

#include <new>
#include <system_error>

namespace cohort {

std::string_view to_string(FailureType type) {
  switch (type) {
    case FailureType::kSuccess: return "success";
    case FailureType::kTimeout: return "timeout";
    case FailureType::kConnect: return "connect";
    case FailureType::kDns: return "dns";
    case FailureType::kTls: return "tls";
    case FailureType::kHttp5xx: return "http_5xx";
    case FailureType::kHttp429: return "http_429";
    case FailureType::kHttp4xx: return "http_4xx";
    case FailureType::kDecode: return "decode";
    case FailureType::kUnknown: return "unknown";
    case FailureType::kCancelled: return "cancelled";
    case FailureType::kHttpAuth: return "http_auth";
    case FailureType::kLocal: return "local";
  }
  return "unknown";
}

FailureRules::FailureRules() {
  FailureRules& rules = *this;
  const FailureRule nothing{.weight = 0, .consecutive = false, .fails_over = false, .counts = false};
  rules[FailureType::kSuccess] = {.weight = 0, .consecutive = false, .fails_over = false, .is_answer = true};
  rules[FailureType::kHttp429] = {.weight = 0.5, .consecutive = false};
  rules[FailureType::kHttp4xx] = nothing;
  rules[FailureType::kHttp4xx].is_answer = true;
  rules[FailureType::kHttpAuth] = rules[FailureType::kHttp4xx];
  rules[FailureType::kCancelled] = nothing;
  rules[FailureType::kLocal] = nothing;
}

FailureType classify_status(int status, bool has_retry_after) {
  if (status < 100) return FailureType::kUnknown;
  if (status < 400) return FailureType::kSuccess;
  if (status == 429 || (status == 503 && has_retry_after)) return FailureType::kHttp429;
  if (status == 408) return FailureType::kTimeout;
  if (status == 401 || status == 403) return FailureType::kHttpAuth;
  return status >= 500 ? FailureType::kHttp5xx : FailureType::kHttp4xx;
}

FailureType classify(const Error& error) {
  if (error.cause && classify(error.cause) == FailureType::kLocal) return FailureType::kLocal;
  switch (error.code) {
    case ErrorCode::kTimedOut: return FailureType::kTimeout;
    case ErrorCode::kUnavailable: return FailureType::kConnect;
    case ErrorCode::kRejected: return FailureType::kHttp429;
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
    case ErrorCode::kExists:
    case ErrorCode::kConflict: return FailureType::kHttp4xx;
    case ErrorCode::kCancelled: return FailureType::kCancelled;
    case ErrorCode::kEnded:
    case ErrorCode::kStale: return FailureType::kUnknown;
    case ErrorCode::kInternal: return error.cause ? classify(error.cause) : FailureType::kUnknown;
  }
  return FailureType::kUnknown;
}

FailureType classify(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::system_error& error) {
    const auto is = [&](std::errc code) { return error.code() == code; };
    if (is(std::errc::timed_out)) return FailureType::kTimeout;
    if (is(std::errc::connection_refused) || is(std::errc::connection_reset) || is(std::errc::connection_aborted) ||
        is(std::errc::host_unreachable) || is(std::errc::network_unreachable) || is(std::errc::network_down) ||
        is(std::errc::broken_pipe) || is(std::errc::not_connected)) {
      return FailureType::kConnect;
    }
    if (is(std::errc::operation_canceled)) return FailureType::kCancelled;
    const bool is_errno =
        error.code().category() == std::generic_category() || error.code().category() == std::system_category();
    if (is_errno && is_shortage(error.code().value())) return FailureType::kLocal;
  } catch (const std::bad_alloc&) {
    return FailureType::kLocal;
  } catch (...) {
    // Whatever it is, it says nothing about the provider that could be told apart.
  }
  return FailureType::kUnknown;
}

}  // namespace cohort
