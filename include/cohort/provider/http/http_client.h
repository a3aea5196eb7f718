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
  std::uint32_t max_in_flight = 256;        ///< Calls that have a connection or want one. 1 to 65,536.
  std::uint32_t max_waiting = 10'000;       ///< Calls behind them; what comes then is refused.
  std::uint32_t max_idle_connections = 64;  ///< Kept for later calls; 0: none is used again.
  Duration connect_timeout = std::chrono::seconds(2);
  Duration timeout = std::chrono::seconds(10);
  std::size_t max_response_bytes = 16U << 20U;
  std::size_t max_header_bytes = 64U << 10U;
  /// Of GET and HEAD; never from https to http. 0: a redirect is an answer like another. Your own headers go along,
  /// also to another host, except Authorization and Cookie.
  std::uint32_t max_redirects = 0;
  std::string proxy{};  ///< Empty: none, whatever the environment says.
  /// False: a call whose host is, or turns out to be, a private, loopback, link-local or otherwise special address
  /// fails before it connects. Then there can be no proxy: who connects to the host must be able to look.
  bool allow_private_addresses = true;
  std::string ca_file{};   ///< Whom to trust, in PEM; empty: whom the system trusts.
  bool verify_tls = true;  ///< False gives up what TLS is for: anybody may answer.
  std::string user_agent = "cohort";
};

/// Calls over HTTP, all of them on one thread of its own; connections are kept and used again.
///
///     auto client = HttpClient::make();
///     HttpAnswer one = (*client)->fetch("http://127.0.0.1:8080/page");                  // blocks
///     HttpAnswer two = co_await (*client)->fetch_async("http://127.0.0.1:8080/page");   // suspends
///
/// A task keeps its permits meanwhile.
///
/// With a Router, where each kind of failure counts as what it is:
///
///     router.call([&](const Attempt& attempt) {
///       return require_success(client.fetch(HttpRequest(url_of(attempt.provider)).with_deadline(attempt.deadline)));
///     });
///
/// A request that cannot be sent (a bad URL, a line break in a header, an address that is not allowed) fails as
/// kHttp4xx: it is its own fault. What a time-out means depends on how far the call had come: no address is kDns, no
/// connection kConnect, no secure one kTls, no answer kTimeout; but one that was given less than
/// `connect_timeout` in all is always kTimeout.
///
/// Thread-safety: thread-safe. Its destructor ends open calls with kEnded.
/// Example: examples/08_http_failover.cc
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> make(HttpClientOptions options = {});
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  /// A handle to wait for, or to cancel. It succeeds with an answer or the Failure; it fails only with kCancelled and
  /// kEnded.
  TaskHandle<HttpAnswer> send(HttpRequest request);
  /// Waits for it. When the task that waits runs out of time, the call is given up.
  HttpAnswer fetch(HttpRequest request);
  Task<HttpAnswer> fetch_async(HttpRequest request) { return fetch_through(loop_, std::move(request)); }

  /// Gives the body to `sink` piece by piece, on this thread, as it comes; `sink` returns false when it wants no more,
  /// which ends the call as cancelled. A sink that is slow slows the server down, nobody else: at most 256 KiB and a
  /// little wait for it. The answer has no body; but that of a status of 400 and more is there and not for the sink.
  /// `first_chunk_deadline` is when the first piece must be there. Without a time-out or deadline of its own a stream
  /// may last, but not fall silent for longer than the client's time-out. It blocks its thread, and a task keeps its
  /// permits meanwhile.
  HttpAnswer stream(HttpRequest request, Function<bool(std::string_view)> sink,
                    std::optional<Time> first_chunk_deadline = {});

  struct Stats {
    std::uint64_t ended = 0;        ///< Calls that were taken in and have ended, however.
    std::uint64_t connections = 0;  ///< Made for those that were not cancelled.
    std::uint32_t in_flight = 0;
    std::uint32_t waiting = 0;
  };
  [[nodiscard]] Stats stats() const;

 private:
  class Loop;
  // No member: a body that outlives its time-out may begin it after the client has gone.
  static Task<HttpAnswer> fetch_through(std::shared_ptr<Loop> loop, HttpRequest request);
  explicit HttpClient(std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;
};

}  // namespace cohort
