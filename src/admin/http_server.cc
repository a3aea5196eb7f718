#include "admin/http_server.h"

// The only file that knows Boost.Beast: it takes long to compile.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "admin/request_guard.h"
#include "cohort/base/log.h"
#include "cohort/base/mutex.h"

namespace cohort {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;

constexpr auto kUse = asio::use_awaitable;

auto catching(beast::error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

Problem problem_of(const beast::error_code& error) {
  if (error == http::error::body_limit) return {413, "invalid", "the body is larger than this node takes"};
  if (error == http::error::header_limit) return {431, "invalid", "the head of the request is too large"};
  if (error == beast::error::timeout) return {408, "timed_out", "the request did not arrive in time"};
  return {400, "invalid", "this is not a request: " + error.message()};
}

// Whether somebody is there who could read an answer.
bool can_be_told(const beast::error_code& error) {
  return error == http::error::body_limit || error == http::error::header_limit || error == beast::error::timeout ||
         (error.category() == http::make_error_code(http::error::bad_method).category() &&
          error != http::error::end_of_stream && error != http::error::partial_message);
}

// How long the body is must not be open to doubt: what one reader takes for a body, another takes for a request.
std::optional<Problem> framing_problem(const Parser::value_type& request) {
  const std::size_t encodings = request.count(http::field::transfer_encoding);
  if (encodings == 0) return std::nullopt;
  if (encodings > 1 || !beast::iequals(request[http::field::transfer_encoding], "chunked")) {
    return Problem{400, "invalid", "the only Transfer-Encoding that this node reads is chunked"};
  }
  if (request.count(http::field::content_length) != 0 || request.version() < 11) {
    return Problem{400, "invalid", "a request has either a Content-Length or, in HTTP/1.1, a Transfer-Encoding"};
  }
  return std::nullopt;
}

RequestHead head_of(const Parser::value_type& request) {
  RequestHead head{.method = request.method_string(),
                   .host = request[http::field::host],
                   .origin = request[http::field::origin],
                   .fetch_site = request["Sec-Fetch-Site"],
                   .content_type = request[http::field::content_type],
                   .has_body = !request.body().empty(),
                   .hosts = request.count(http::field::host)};
  return head;
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  explicit Impl(HttpServerOptions options)
      : options_(std::move(options)), loops_(options_.threads), acceptor_(loops_.front().io) {}

  Result<void> listen() {
    beast::error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    if (error) return Error{ErrorCode::kInvalid, "'" + options_.address + "' is not an address to listen on"};
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(1024, error);
    if (!error) {
      port_ = acceptor_.local_endpoint().port();
      return {};
    }
    const bool taken = error == asio::error::address_in_use;
    return Error{taken ? ErrorCode::kConflict : ErrorCode::kInvalid,
                 "cannot listen on " + options_.address + ":" + std::to_string(options_.port) + ": " + error.message() +
                     (taken ? "; another program is there, choose another port (0: any)" : "")};
  }

  void serve(Handler handler) {
    handler_ = std::move(handler);
    asio::post(acceptor_.get_executor(), [this] { asio::co_spawn(loops_.front().io, accept(), asio::detached); });
    for (Loop& loop : loops_) loop.thread = std::thread([&io = loop.io] { io.run(); });
  }

  void stop() {
    std::map<std::uint64_t, std::shared_ptr<BodyStream>> streams;
    {
      MutexLock lock(mutex_);
      if (std::exchange(stopped_, true)) return;
      streams = streams_;
    }
    for (const auto& [id, stream] : streams) stream->close();  // (It calls back: not under the lock.)
    stopping_ = true;
    asio::post(acceptor_.get_executor(), [this] {
      beast::error_code ignored;
      acceptor_.close(ignored);
    });
    // Handlers use what is destroyed after this, and always answer. None is asked any more: whoever counts himself in
    // looks at the flag after that, and this looks at the count after it has set the flag. What they said has a second
    // to go out.
    while (handling_.load() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int i = 0; i < 1000 && answering_.load() != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (Loop& loop : loops_) loop.io.stop();
    for (Loop& loop : loops_) {
      if (loop.thread.joinable()) loop.thread.join();
    }
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] Stats stats() const { return {connections_, requests_, refused_, turned_away_}; }

 private:
  // While one lives, an answer is being made or sent.
  struct Answering {
    explicit Answering(Impl& impl) : count(impl.answering_) { ++count; }
    ~Answering() { --count; }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    std::atomic<std::uint32_t>& count;
  };
  struct Connected {
    explicit Connected(Impl& impl) : count(impl.connections_) { ++count; }
    ~Connected() { --count; }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;
    std::atomic<std::uint32_t>& count;
  };

  // A thread with connections of its own. All that happens to a connection happens on its thread, coroutines included:
  // compilers take it that one goes on where it was, as far as thread-local variables are concerned.
  struct Loop {
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
    std::thread thread;
  };

  asio::awaitable<void> accept() {
    for (std::size_t next = 0;; ++next) {
      beast::error_code error;
      asio::io_context& io = loops_[next % loops_.size()].io;
      tcp::socket socket = co_await acceptor_.async_accept(io, catching(error));
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
      if (error) {  // No more file descriptors, most likely. Idle connections are the first to go.
        const std::size_t dropped = drop_idle(kDroppedAtOnce);
        COHORT_LOG(kWarning, "admin", "a connection could not be accepted", {"error", error.message()},
                   {"dropped", dropped});
        asio::steady_timer pause(acceptor_.get_executor(), std::chrono::milliseconds(200));
        co_await pause.async_wait(catching(error));
        continue;
      }
      if (connections_ >= options_.max_connections && drop_idle(1) == 0) {
        ++turned_away_;
        continue;
      }
      asio::post(io, [this, &io, socket = std::move(socket), connected = std::make_unique<Connected>(*this)]() mutable {
        asio::co_spawn(io, serve(io, std::move(socket), std::move(connected)), asio::detached);
      });
    }
  }

  // A connection between requests. Only its own thread touches it, but for the list it stands in.
  struct Idle {
    asio::io_context* io = nullptr;
    beast::tcp_stream* stream = nullptr;  // Null once it is not idle any more.
  };
  class IdleScope {
   public:
    IdleScope(Impl& impl, asio::io_context& io, beast::tcp_stream& stream)
        : impl_(impl), idle_(std::make_shared<Idle>(Idle{&io, &stream})) {
      MutexLock lock(impl_.mutex_);
      id_ = ++impl_.last_idle_;
      impl_.idle_.emplace(id_, idle_);
    }
    ~IdleScope() {
      idle_->stream = nullptr;
      MutexLock lock(impl_.mutex_);
      impl_.idle_.erase(id_);
    }
    IdleScope(const IdleScope&) = delete;
    IdleScope& operator=(const IdleScope&) = delete;

   private:
    Impl& impl_;
    std::shared_ptr<Idle> idle_;
    std::uint64_t id_ = 0;
  };

  // Ends the connections that have been idle for the longest time. Gives how many.
  std::size_t drop_idle(std::size_t most) {
    std::vector<std::shared_ptr<Idle>> dropped;
    {
      MutexLock lock(mutex_);
      while (dropped.size() < most && !idle_.empty()) {
        dropped.push_back(std::move(idle_.begin()->second));
        idle_.erase(idle_.begin());
      }
    }
    for (const std::shared_ptr<Idle>& each : dropped) {
      asio::post(*each->io, [each] {
        if (each->stream != nullptr) each->stream->close();
      });
    }
    return dropped.size();
  }

  asio::awaitable<void> serve(asio::io_context& io, tcp::socket socket,
                              [[maybe_unused]] std::unique_ptr<Connected> connected) {
    beast::error_code error;
    socket.set_option(tcp::no_delay(true), error);
    beast::tcp_stream stream(std::move(socket));
    beast::flat_buffer buffer(options_.max_header + (64U << 10U));
    bool goes_on = co_await serve_one(io, stream, buffer, options_.request_timeout);
    while (goes_on) goes_on = co_await serve_one(io, stream, buffer, options_.idle_timeout);
    if (stream.socket().is_open()) stream.socket().shutdown(tcp::socket::shutdown_both, error);
  }

  // False when the connection is to end.
  asio::awaitable<bool> serve_one(asio::io_context& io, beast::tcp_stream& stream, beast::flat_buffer& buffer,
                                  Duration patience) {
    beast::error_code error;
    stream.expires_after(patience);
    if (buffer.size() == 0) {
      const IdleScope idle(*this, io, stream);
      const std::size_t bytes = co_await stream.async_read_some(buffer.prepare(16U << 10U), catching(error));
      if (error) co_return false;
      buffer.commit(bytes);
    }
    stream.expires_after(options_.request_timeout);
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(options_.max_header));
    parser.body_limit(options_.max_body);
    co_await http::async_read_header(stream, buffer, parser, catching(error));
    if (!error) {
      if (auto problem = framing_problem(parser.get())) {
        ++refused_;
        ServerResponse refusal = ServerResponse::of(*problem);
        co_await send(stream, refusal, 11, false);
        co_return false;
      }
    }
    if (!error && !parser.is_done() && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream, asio::buffer(kGoOn), catching(error));
    }
    if (!error) co_await http::async_read(stream, buffer, parser, catching(error));
    if (error) {
      if (!can_be_told(error)) co_return false;
      ++refused_;
      ServerResponse refusal = ServerResponse::of(problem_of(error));
      co_await send(stream, refusal, 11, false);
      co_return false;
    }
    ++requests_;
    const Answering answering(*this);
    auto& request = parser.get();
    const bool keeps = request.keep_alive();
    const unsigned version = request.version();
    const bool is_head = request.method() == http::verb::head;
    ServerResponse response = co_await answer(request);
    if (response.stream) co_return co_await send_stream(stream, response);
    if (is_head) response.body.clear();
    co_return co_await send(stream, response, version, keeps && !stopping_.load());
  }

  asio::awaitable<ServerResponse> answer(Parser::value_type& request) {
    if (auto problem = refuse(head_of(request))) {
      ++refused_;
      co_return ServerResponse::of(*problem);
    }
    const auto text = request.target();
    auto target = Target::parse(std::string_view(text.data(), text.size()));
    if (!target) {
      ++refused_;
      co_return ServerResponse::of(Error{ErrorCode::kInvalid, "the path or query cannot be decoded"});
    }
    ServerRequest asked{.method = std::string(request.method_string()),
                        .target = *std::move(target),
                        .last_event_id = std::string(request["Last-Event-ID"]),
                        .body = std::move(request.body())};
    co_return co_await hand_over(std::move(asked));
  }

  asio::awaitable<ServerResponse> hand_over(ServerRequest request) {
    return wait_for<ServerResponse>([this, request = std::move(request)](auto give) mutable {
      ++handling_;
      if (stopping_.load()) {
        give(ServerResponse::of(Error{ErrorCode::kUnavailable, "this node has stopped"}));
        --handling_;
        return;
      }
      handler_(std::move(request), Respond([this, give = std::move(give)](ServerResponse response) mutable {
                 give(std::move(response));  // (It also keeps the server until it is gone.)
                 --handling_;
               }));
    });
  }

  // Suspends until somebody, on any thread, has called what `begin` was given. The server lives until then.
  template <class T, class Begin>
  asio::awaitable<T> wait_for(Begin begin) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void(T)>(
        [this](auto handler, Begin start) {
          // (Not the coroutine holds the server, or one that never goes on would for ever.)
          auto waits = std::make_shared<decltype(handler)>(std::move(handler));
          start([self = shared_from_this(), waits = std::move(waits)](T value) mutable {
            const auto executor = asio::get_associated_executor(*waits);
            asio::post(executor, [waits = std::move(waits), value = std::move(value)]() mutable {
              std::move (*waits)(std::move(value));
            });
          });
        },
        kUse, std::move(begin));
  }

  asio::awaitable<bool> send(beast::tcp_stream& stream, ServerResponse& response, unsigned version, bool keeps) {
    http::response<http::string_body> message(http::status::ok, version);
    message.result(static_cast<unsigned>(response.status));
    message.set(http::field::content_type, response.type);
    message.set(http::field::cache_control, "no-store");
    message.set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) message.set(name, value);
    message.keep_alive(keeps);
    message.body() = std::move(response.body);
    message.prepare_payload();
    stream.expires_after(options_.write_timeout);
    beast::error_code error;
    co_await http::async_write(stream, message, catching(error));
    co_return !error && keeps;
  }

  asio::awaitable<bool> send_stream(beast::tcp_stream& stream, ServerResponse& response) {
    const std::uint64_t id = ++last_stream_;
    {
      MutexLock lock(mutex_);
      if (stopped_) co_return false;
      streams_.emplace(id, response.stream);
    }
    using namespace asio::experimental::awaitable_operators;
    co_await (send_pieces(stream, response) || close_with_reader(stream, response.stream));
    response.stream->close();
    MutexLock lock(mutex_);
    streams_.erase(id);
    co_return false;
  }

  asio::awaitable<void> send_pieces(beast::tcp_stream& stream, const ServerResponse& response) {
    std::string piece = "HTTP/1.1 200 OK\r\nContent-Type: " + response.type +
                        "\r\nCache-Control: no-store\r\nConnection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n";
    beast::error_code error;
    for (;;) {
      stream.expires_after(options_.write_timeout);
      co_await asio::async_write(stream, asio::buffer(piece), catching(error));
      if (error) co_return;
      stream.expires_never();
      std::optional<std::string> next = co_await next_piece(response.stream);
      if (!next) co_return;
      piece = *std::move(next);
    }
  }

  // Who reads a stream has nothing more to say: anything but silence is the end of it.
  static asio::awaitable<void> close_with_reader(beast::tcp_stream& stream, std::shared_ptr<BodyStream> body) {
    char byte = 0;
    beast::error_code error;
    co_await stream.socket().async_read_some(asio::buffer(&byte, 1), catching(error));
    body->close();
  }

  asio::awaitable<std::optional<std::string>> next_piece(std::shared_ptr<BodyStream> stream) {
    return wait_for<std::optional<std::string>>(
        [stream = std::move(stream)](auto give) mutable { stream->next(std::move(give)); });
  }

  const HttpServerOptions options_;
  Handler handler_;  // Set before the first thread is started.
  std::atomic<bool> stopping_{false};
  std::uint16_t port_ = 0;
  std::atomic<std::uint32_t> connections_{0};
  std::atomic<std::uint32_t> answering_{0};
  std::atomic<std::uint32_t> handling_{0};  // With the handler.
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> turned_away_{0};
  std::atomic<std::uint64_t> last_stream_{0};

  static constexpr std::size_t kDroppedAtOnce = 8;
  Mutex mutex_;
  std::uint64_t last_idle_ COHORT_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::shared_ptr<Idle>> idle_
      COHORT_GUARDED_BY(mutex_);  // In the order in which they became so.
  bool stopped_ COHORT_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, std::shared_ptr<BodyStream>> streams_ COHORT_GUARDED_BY(mutex_);

  // Last, and so destroyed first: with them go the coroutines that were left.
  std::vector<Loop> loops_;
  tcp::acceptor acceptor_;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  if (auto listening = impl->listen(); !listening) return listening.error();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, Handler handler) {
  auto server = listen(std::move(options));
  if (server) (*server)->serve(std::move(handler));
  return server;
}

void HttpServer::serve(Handler handler) { impl_->serve(std::move(handler)); }
std::uint16_t HttpServer::port() const { return impl_->port(); }
HttpServer::Stats HttpServer::stats() const { return impl_->stats(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace cohort
