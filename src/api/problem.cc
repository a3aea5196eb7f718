#include "api/problem.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cohort {

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid: return 400;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kExists:
    case ErrorCode::kConflict:
    case ErrorCode::kStale:
    case ErrorCode::kCancelled: return 409;
    case ErrorCode::kRejected: return 429;
    case ErrorCode::kTimedOut: return 504;
    case ErrorCode::kUnavailable:
    case ErrorCode::kEnded: return 503;
    case ErrorCode::kInternal: break;
  }
  return 500;
}

std::string_view status_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
  }
}

Problem Problem::of(const Error& error) {
  std::string code(to_string(error.code));
  std::ranges::replace(code, ' ', '_');
  return {http_status(error.code), std::move(code), error.message};
}

std::string Problem::to_json() const {
  const nlohmann::json json = {{"type", "about:blank"},
                               {"title", status_phrase(status)},
                               {"status", status},
                               {"code", code},
                               {"detail", detail}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cohort
