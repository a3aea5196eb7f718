#pragma once

// One call: what was asked, what has come so far, and its libcurl handle while it is under way.

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "cohort/base/mutex.h"
#include "cohort/provider/http/http_client.h"
#include "cohort/task/promise.h"

namespace cohort::internal {

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

/// Between the client's thread, which puts in what comes, and the one that reads a stream. It holds `kMost` bytes and a
/// little: then the connection is not read from until it has been emptied.
///
/// Thread-safety: thread-safe.
class StreamPipe {
 public:
  static constexpr std::size_t kMost = 256U << 10U;

  /// False: full, try again after the reader has taken all.
  bool put(std::string_view piece) COHORT_EXCLUDES(mutex_);
  void end() COHORT_EXCLUDES(mutex_);

  struct Taken {
    std::string bytes;
    bool was_full = false;  ///< The client's thread is to be told that there is room.
    bool ended = false;
    bool too_late = false;
  };
  /// Waits for the next bytes, the end, or until `until`.
  Taken take(std::optional<Time> until) COHORT_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string bytes_ COHORT_GUARDED_BY(mutex_);
  bool full_ COHORT_GUARDED_BY(mutex_) = false;
  bool ended_ COHORT_GUARDED_BY(mutex_) = false;
};

/// Made by any thread, then the client's thread's alone.
class HttpTransfer {
 public:
  enum class State { kNew, kWaiting, kActive, kDone };

  HttpTransfer(HttpRequest request, const HttpClientOptions& options, std::shared_ptr<StreamPipe> pipe,
               Function<void()> on_cancel);

  /// Why the request cannot be sent.
  [[nodiscard]] static Result<void> check(const HttpRequest& request);

  [[nodiscard]] TaskHandle<HttpAnswer> handle() const { return promise_.handle(); }
  [[nodiscard]] Time limit() const { return limit_; }
  [[nodiscard]] CURL* easy() const { return easy_.get(); }
  /// For any thread: it is not waiting for its turn any more.
  [[nodiscard]] bool was_sent() const { return was_sent_.load(std::memory_order_relaxed); }

  /// Prepares the handle, which has been reset; it is given back by finish().
  void start(Easy easy, const HttpClientOptions& options, Time now);
  /// The call has ended with that result of libcurl; settles it.
  Easy finish(CURLcode code, Time now);
  /// It has ended without one; so has, with the handle, one that was under way.
  Easy give_up(Error error);
  void fail(FailureType type, ErrorCode code, std::string_view what);

  [[nodiscard]] std::uint32_t connections_made() const;
  void go_on() {
    last_heard_ = system_clock().now();  // Until now it was not asked.
    if (state == State::kActive) curl_easy_pause(easy_.get(), CURLPAUSE_CONT);
  }
  /// When it will have been silent for too long; for a stream that may last.
  [[nodiscard]] Time silent_at() const {
    return silence_limit_ == Duration::zero() || paused_ ? Time::max() : saturating_add(last_heard_, silence_limit_);
  }
  void note_silence() { refused_ = "nothing came for too long"; }

  State state = State::kNew;

 private:
  struct SlistDeleter {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  static CURLcode on_tls(CURL* easy, void* context, void* self);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent);
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  std::size_t take_header(std::string_view line);
  std::size_t take_body(std::string_view piece);
  void set_method();
  [[nodiscard]] Failure private_address_failure() const;
  [[nodiscard]] HttpAnswer answer_of(CURLcode code, Time now);
  [[nodiscard]] FailureType type_of(CURLcode code) const;
  [[nodiscard]] FailureType type_of_timeout() const;
  [[nodiscard]] bool lacks_means(CURLcode code) const;
  [[nodiscard]] curl_off_t info(CURLINFO what) const;
  [[nodiscard]] std::string subject() const;
  void settle(Result<HttpAnswer> answer);

  HttpRequest request_;
  const Time begun_;
  Time started_{};
  const Duration connect_timeout_;
  const Time limit_;              // When it must have ended.
  const Duration silence_limit_;  // 0: it has none.
  Time last_heard_{};
  curl_off_t sent_ = 0;
  const std::size_t max_body_;
  const std::size_t max_headers_;
  Promise<HttpAnswer> promise_;
  std::shared_ptr<StreamPipe> pipe_;  // Null: it is no stream.

  Easy easy_;
  std::unique_ptr<curl_slist, SlistDeleter> header_list_;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  std::string_view refused_;  // What we would not take of the answer.
  bool is_too_large_ = false;
  std::string private_address_;  // Which we would not connect to.
  bool tls_begun_ = false;
  bool expects_status_ = true;
  bool body_begun_ = false;
  std::atomic<bool> was_sent_{false};
  bool paused_ = false;
};

}  // namespace cohort::internal
