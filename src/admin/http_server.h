#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "admin/server_message.h"
#include "cohort/base/clock.h"
#include "cohort/base/result.h"

namespace cohort {

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any that is free.
  std::uint32_t threads = 2;
  std::uint32_t max_connections = 4096;  ///< Beyond it the longest idle connection is ended for a new one.
  std::size_t max_body = 8U << 20U;
  std::size_t max_header = 16U << 10U;
  Duration request_timeout = std::chrono::seconds(15);
  Duration idle_timeout = std::chrono::seconds(75);
  Duration write_timeout = std::chrono::seconds(15);
};

/// HTTP/1.1 for a node: keeps connections, holds every client to limits of size and time, and gives requests that may
/// ask (request_guard.h) to a handler, which answers when it can.
///
/// Thread-safety: the handler runs on the server's threads, for many requests at once, and must not block.
class HttpServer {
 public:
  using Handler = std::function<void(ServerRequest, Respond)>;

  /// Takes the port; who connects waits until serve(). kConflict: it is taken. kInvalid: no such address here.
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options);
  /// Once.
  void serve(Handler handler);
  /// Both.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, Handler handler);
  /// As stop().
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const;

  struct Stats {
    std::uint32_t connections = 0;
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;      ///< Malformed, over a limit, or from somebody who may not ask.
    std::uint64_t turned_away = 0;  ///< Connections over the limit.
  };
  [[nodiscard]] Stats stats() const;

  /// Takes no more, gives answers that are due a second to go out, and ends every connection.
  void stop();

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cohort
