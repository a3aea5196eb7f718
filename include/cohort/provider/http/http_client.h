#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/function.h"
#include "cohort/base/result.h"
#include "cohort/provider/http/http_message.h"
#include "cohort/task/task.h"
#include "cohort/task/task_handle.h"

namespace cohort {

struct HttpClientOptions {
  std::uint32_t max_in_flight = 256;        ///< Calls that have a connection or are getting one. 1 to 65,536.
  std::uint32_t max_waiting = 10'000;       ///< Calls that may wait for `max_in_flight`. Further calls are refused.
  std::uint32_t max_idle_connections = 64;  ///< Connections kept for later calls. 0: no connection is used again.
  Duration connect_timeout = std::chrono::seconds(2);
  Duration timeout = std::chrono::seconds(10);
  std::size_t max_response_bytes = 16U << 20U;
  std::size_t max_header_bytes = 64U << 10U;
  /// How many redirects the client follows, for GET and HEAD only. It never follows one from https to http. It sends
  /// your headers again, but not Authorization and Cookie to another host. 0: a redirect is an answer.
  std::uint32_t max_redirects = 0;
  std::string proxy{};  ///< Empty: no proxy. The client ignores the proxy settings of the environment.
  /// False: a call to a private, loopback, link-local or other special address fails before it connects. The client
  /// checks the address after it has looked up the name. This excludes a proxy, because only the proxy knows the
  /// address.
  bool allow_private_addresses = true;
  std::string ca_file{};   ///< The trusted certificates, in PEM. Empty: those of the system.
  bool verify_tls = true;  ///< False: the client accepts any certificate, so any server can pretend to be the host.
  std::string user_agent = "cohort";
};

/// Makes HTTP calls. One thread of the client drives all calls. The client keeps connections and uses them again.
///
///     auto client = HttpClient::make().value();
///     HttpAnswer one = client->fetch("http://127.0.0.1:8080/page");                 // blocks
///     HttpAnswer two = co_await client->fetch_async("http://127.0.0.1:8080/page");  // suspends
///
/// A task that waits for a call keeps its permits.
///
/// With a Router each kind of failure counts by its own rule:
///
///     auto page = router->call([&](const Attempt& attempt) {
///       return require_success(client->fetch(HttpRequest(url_of(attempt.provider)).with_deadline(attempt.deadline)));
///     });
///
/// A request that cannot be sent (a bad URL, a line break in a header, an address that is not allowed) fails as
/// kHttp4xx. The kind of a time-out depends on the progress of the call: no address is kDns, no connection is kConnect,
/// no TLS is kTls, no answer is kTimeout. If the call had less than `connect_timeout` in all, it is kTimeout.
///
/// Thread-safety: thread-safe. The destructor ends open calls with kEnded.
/// Example: examples/08_http_failover.cc
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> make(HttpClientOptions options = {});
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// Starts a call and returns a handle to wait for it or to cancel it. The handle succeeds with an answer or a
  /// Failure. It fails only with kCancelled or kEnded.
  TaskHandle<HttpAnswer> send(HttpRequest request);
  /// Makes a call and blocks until it has ended. If the waiting task runs out of time, the client gives the call up.
  HttpAnswer fetch(HttpRequest request);
  /// Makes a call and suspends the coroutine until it has ended.
  Task<HttpAnswer> fetch_async(HttpRequest request) { return fetch_through(loop_, std::move(request)); }

  /// Makes a call and passes the body to `sink` piece by piece, on the calling thread. Blocks until the call has ended.
  /// A task keeps its permits meanwhile.
  ///
  /// - If `sink` returns false, the call ends as cancelled.
  /// - A slow sink slows down only its server: at most a little over 256 KiB wait for it.
  /// - The returned answer has no body. Exception: the body of a status of 400 or more is in the answer and does not go
  ///   to the sink.
  /// - The first piece must be there at `first_chunk_deadline`.
  /// - Without HttpRequest::timeout a stream may last, but must not be silent for longer than the client's `timeout`.
  HttpAnswer stream(HttpRequest request, Function<bool(std::string_view)> sink,
                    std::optional<Time> first_chunk_deadline = {});

  struct Stats {
    std::uint64_t ended = 0;        ///< Accepted calls that have ended in any way.
    std::uint64_t connections = 0;  ///< New connections, without those of cancelled calls.
    std::uint32_t in_flight = 0;    ///< Calls that have a connection or are getting one.
    std::uint32_t waiting = 0;      ///< Calls that wait for `max_in_flight`.
  };
  [[nodiscard]] Stats stats() const;

 private:
  class Loop;
  // Static, because a body that outlives its time-out may start this coroutine after the client was destroyed.
  static Task<HttpAnswer> fetch_through(std::shared_ptr<Loop> loop, HttpRequest request);
  explicit HttpClient(std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;
};

}  // namespace cohort
