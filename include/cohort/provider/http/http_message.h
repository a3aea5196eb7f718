#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/provider/failure_type.h"

namespace cohort {

struct HttpHeader {
  std::string name;
  std::string value;
};

/// One call of a provider over HTTP.
///
///     HttpRequest(url).with_deadline(attempt.deadline)
///     HttpRequest("POST", url).with_header("Content-Type", "application/json").with_body(text)
///
/// (It is no aggregate because g++ 12 destroys an aggregate that is made inside a co_await expression twice.)
struct HttpRequest {
  HttpRequest(std::string where) : url(std::move(where)) {}  // NOLINT: implicit by design
  HttpRequest(const char* where) : url(where) {}             // NOLINT: implicit by design
  HttpRequest(std::string what, std::string where) : url(std::move(where)), method(std::move(what)) {}

  HttpRequest&& with_header(std::string name, std::string value) && {
    headers.push_back({std::move(name), std::move(value)});
    return std::move(*this);
  }
  HttpRequest&& with_body(std::string bytes) && { return with(body, std::move(bytes)); }
  HttpRequest&& with_timeout(Duration duration) && { return with(timeout, duration); }
  HttpRequest&& with_deadline(Time time) && { return with(deadline, time); }
  HttpRequest&& with_connect_timeout(Duration duration) && { return with(connect_timeout, duration); }
  HttpRequest&& with_max_response_bytes(std::size_t bytes) && { return with(max_response_bytes, bytes); }
  HttpRequest&& with_fresh_connection() && { return with(fresh_connection, true); }
  HttpRequest&& with_stop(std::stop_token token) && { return with(stop, std::move(token)); }

  std::string url;  ///< http:// or https://, nothing else.
  std::string method = "GET";
  std::vector<HttpHeader> headers{};
  std::string body{};
  Duration timeout{0};                 ///< From the first to the last byte; 0: the client's, and for a stream none.
  std::optional<Time> deadline{};      ///< As an Attempt has it; the earlier of both counts.
  Duration connect_timeout{0};         ///< To find the name, connect, and agree on TLS; 0: the client's.
  std::size_t max_response_bytes = 0;  ///< 0: the client's.
  /// A kept connection may have been closed just now, and then the request is sent again on another one. A server that
  /// had read it already sees it twice; not so on a fresh connection.
  bool fresh_connection = false;
  std::stop_token stop{};  ///< Ends the call as cancelled. For fetch and stream; what is sent has its handle.

 private:
  template <class Field, class Value>
  HttpRequest&& with(Field& field, Value&& value) {
    field = std::forward<Value>(value);
    return std::move(*this);
  }
};

/// Names of headers are the same in any case.
[[nodiscard]] bool same_header_name(std::string_view a, std::string_view b);

/// What a server said, whatever its status.
struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers{};
  std::string body{};
  Duration latency{0};
  bool reused_connection = false;
  std::optional<Duration> retry_after{};

  /// The first header of that name, in any case; empty if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// What a Retry-After header means at that time (seconds since 1970): a number of seconds, or a date. Nothing: there is
/// none, or it is malformed. At most a year.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value, std::int64_t now);

/// The `detail` of a Failure whose answer was larger than allowed, and of a status below 400.
inline constexpr std::string_view kTooLarge = "too large";

/// An answer of any status, or why there is none.
using HttpAnswer = std::variant<HttpResponse, Failure>;

/// A status of 400 and more becomes the Failure that it means, with the beginning of the body in its message.
[[nodiscard]] HttpAnswer require_success(HttpAnswer answer);

/// The kind of failure that a result of libcurl (a CURLcode) means: of 28, the time-out, one after the request was
/// sent.
[[nodiscard]] FailureType classify_curl(int code);

}  // namespace cohort
