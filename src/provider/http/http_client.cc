#include "cohort/provider/http/http_client.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "provider/http/http_loop.h"

namespace cohort {
namespace {

// The end of a call that nobody could wait for: the task that did has no time left, or wants no more; or the client has
// ended.
Failure not_waited_for(Error error) {
  const FailureType type = error.code == ErrorCode::kTimedOut ? FailureType::kTimeout
                           : error.code == ErrorCode::kEnded  ? FailureType::kLocal
                                                              : FailureType::kCancelled;
  return {type, std::move(error), {}, {}};
}

HttpAnswer answer_of(TaskResult<HttpAnswer> result) {
  if (result.value) return *std::move(result.value);
  return not_waited_for(*std::move(result.error));
}

bool is_pem(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("-----BEGIN ")) return true;
  }
  return false;
}

// Passes a request to stop on, for as long as it lives.
class StopLink {
 public:
  StopLink(const std::stop_token& stop, TaskHandle<HttpAnswer> handle) {
    if (stop.stop_possible()) link_.emplace(stop, Cancel{std::move(handle)});
  }

 private:
  struct Cancel {
    TaskHandle<HttpAnswer> handle;
    void operator()() const { handle.cancel(); }
  };
  std::optional<std::stop_callback<Cancel>> link_;
};

// Gives the call up unless it has been waited for to its end.
class Abandon {
 public:
  explicit Abandon(const TaskHandle<HttpAnswer>& handle) : handle_(handle) {}
  ~Abandon() { handle_.cancel(); }
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;

 private:
  const TaskHandle<HttpAnswer>& handle_;
};

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::make(HttpClientOptions options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) return Error{ErrorCode::kInternal, curl_easy_strerror(ready)};
  const auto invalid = [](std::string text) { return Error{ErrorCode::kInvalid, std::move(text)}; };
  if (options.max_in_flight < 1 || options.max_in_flight > 65'536) {
    return invalid("max_in_flight is " + std::to_string(options.max_in_flight) + "; it is 1 to 65536");
  }
  if (options.timeout <= Duration::zero() || options.connect_timeout <= Duration::zero()) {
    return invalid("timeout and connect_timeout are above 0");
  }
  if (!options.allow_private_addresses && !options.proxy.empty()) {
    return invalid("with a proxy nobody knows the address that is called; allow private addresses, or leave it out");
  }
  if (!options.ca_file.empty() && !is_pem(options.ca_file)) {
    return Error{ErrorCode::kNotFound, "the ca_file '" + options.ca_file + "' cannot be read, or holds no certificate"};
  }
  auto loop = std::make_shared<Loop>(std::move(options));
  if (auto started = loop->start(); !started) return started.error();
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(loop)));
}

HttpClient::HttpClient(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpClient::~HttpClient() { loop_->stop(); }

HttpClient::Stats HttpClient::stats() const { return loop_->stats(); }

TaskHandle<HttpAnswer> HttpClient::send(HttpRequest request) {
  return loop_->send(std::move(request), nullptr)->handle();
}

HttpAnswer HttpClient::fetch(HttpRequest request) {
  const std::stop_token stop = request.stop;
  const TaskHandle<HttpAnswer> handle = send(std::move(request));
  const Abandon abandon(handle);
  const StopLink link(stop, handle);
  return answer_of(handle.take());
}

Task<HttpAnswer> HttpClient::fetch_through(std::shared_ptr<Loop> loop, HttpRequest request) {
  const std::stop_token stop = request.stop;
  const TaskHandle<HttpAnswer> handle = loop->send(std::move(request), nullptr)->handle();
  const Abandon abandon(handle);
  const StopLink link(stop, handle);
  if (Result<void> waited = co_await handle.settled(); !waited) {
    co_return not_waited_for(waited.error());
  }
  co_return answer_of(handle.take());
}

HttpAnswer HttpClient::stream(HttpRequest request, Function<bool(std::string_view)> sink,
                              std::optional<Time> first_chunk_deadline) {
  const std::shared_ptr<Loop> loop = loop_;  // It may outlive this client.
  const std::stop_token stop = request.stop;
  const auto pipe = std::make_shared<internal::StreamPipe>();
  const Loop::Transfer transfer = loop->send(std::move(request), pipe);
  const TaskHandle<HttpAnswer> handle = transfer->handle();
  const Abandon abandon(handle);
  const StopLink link(stop, handle);
  std::optional<Time> until = first_chunk_deadline;
  for (;;) {
    const internal::StreamPipe::Taken taken = pipe->take(until);
    if (taken.ended) return answer_of(handle.take());
    if (taken.too_late) {
      const FailureType type = transfer->was_sent() ? FailureType::kTimeout : FailureType::kLocal;
      return Failure{type, {ErrorCode::kTimedOut, "its first piece did not come in time"}, {}, {}};
    }
    until.reset();
    if (taken.was_full) loop->go_on(transfer);
    if (!sink(taken.bytes)) {
      return Failure{FailureType::kCancelled, {ErrorCode::kCancelled, "its reader wants no more"}, {}, {}};
    }
  }
}

}  // namespace cohort
