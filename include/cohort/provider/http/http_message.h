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

/// One HTTP request.
///
///     auto page = client->fetch(HttpRequest(url).with_deadline(attempt.deadline));
///     auto made = client->fetch(
///         HttpRequest("POST", url).with_header("Content-Type", "application/json").with_body(text));
///
/// (HttpRequest is not an aggregate, because g++ 12 destroys an aggregate twice if a co_await expression creates it.)
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
  Duration timeout{0};                 ///< Time-out of the whole call. 0: the client's; for a stream: none.
  std::optional<Time> deadline{};      ///< The call ends at the earlier of `deadline` and the end of `timeout`.
  Duration connect_timeout{0};         ///< Time to look up the name, connect and agree on TLS. 0: the client's.
  std::size_t max_response_bytes = 0;  ///< 0: the client's.
  /// True: the call uses a new connection. False: the call may use a kept connection, which the server may just have
  /// closed. The client then sends the request again on another connection, so the server may see it twice.
  bool fresh_connection = false;
  std::stop_token stop{};  ///< Ends the call as cancelled. send() ignores it: cancel the handle instead.

 private:
  template <class Field, class Value>
  HttpRequest&& with(Field& field, Value&& value) {
    field = std::forward<Value>(value);
    return std::move(*this);
  }
};

/// Compares two header names. Upper and lower case are equal.
[[nodiscard]] bool same_header_name(std::string_view a, std::string_view b);

/// The answer of a server, with any status.
struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers{};
  std::string body{};
  Duration latency{0};                    ///< From the call of the client to the end of the answer.
  bool reused_connection = false;         ///< True if the call used a kept connection.
  std::optional<Duration> retry_after{};  ///< The Retry-After header, see parse_retry_after().

  /// The value of the first header with that name, in upper or lower case. Empty if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// Reads the value of a Retry-After header: a number of seconds or a date. `now` is in seconds since 1970. Returns at
/// most a year. `nullopt` if the value is empty or malformed.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value, std::int64_t now);

/// The Failure::detail for an answer that was larger than allowed and had a status below 400.
inline constexpr std::string_view kTooLarge = "too large";

/// An answer with any status, or the reason why there is none.
using HttpAnswer = std::variant<HttpResponse, Failure>;

/// Turns a status of 400 or more into the matching Failure. Its message holds the beginning of the body. Returns every
/// other answer unchanged.
[[nodiscard]] HttpAnswer require_success(HttpAnswer answer);

/// Maps a result of libcurl (a CURLcode) to a FailureType. Code 28, the time-out, becomes kTimeout, as if the request
/// had been sent.
[[nodiscard]] FailureType classify_curl(int code);

}  // namespace cohort
