#include "provider/http/http_transfer.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace cohort::internal {
namespace {

constexpr std::size_t kMaxUrlBytes = 8192;

bool is_token(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, allowed);
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; });
}

struct Url {
  Url() : url(curl_url()) {}
  ~Url() { curl_url_cleanup(url); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;

  [[nodiscard]] std::string part(CURLUPart which) const {
    char* text = nullptr;
    if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return {};
    std::string copy(text);
    curl_free(text);
    return copy;
  }

  CURLU* url;
};

bool is_address(const std::string& host) {
  in_addr v4{};
  return host.starts_with('[') || inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

long milliseconds(Duration duration) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<long>(std::clamp<std::int64_t>(whole, 1, 24LL * 3600 * 1000));
}

}  // namespace

bool StreamPipe::put(std::string_view piece) {
  MutexLock lock(mutex_);
  if (bytes_.size() >= kMost) {
    full_ = true;
    return false;
  }
  bytes_.append(piece);
  changed_.notify_all();
  return true;
}

void StreamPipe::end() {
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

StreamPipe::Taken StreamPipe::take(std::optional<Time> until) {
  MutexLock lock(mutex_);
  while (bytes_.empty() && !ended_) {
    if (!until) {
      changed_.wait(mutex_);
    } else if (system_clock().now() >= *until) {
      return {.bytes = {}, .was_full = false, .ended = false, .too_late = true};
    } else {
      changed_.wait_until(mutex_, *until);
    }
  }
  Taken taken{.bytes = std::exchange(bytes_, {}), .was_full = std::exchange(full_, false)};
  taken.ended = taken.bytes.empty();
  return taken;
}

Result<void> HttpTransfer::check(const HttpRequest& request) {
  const auto invalid = [](std::string text) { return Error{ErrorCode::kInvalid, std::move(text)}; };
  if (request.url.size() > kMaxUrlBytes) return invalid("the URL has more than 8192 bytes");
  if (!is_token(request.method)) return invalid("'" + request.method + "' is no HTTP method");
  for (const HttpHeader& each : request.headers) {
    if (!is_token(each.name)) return invalid("'" + each.name + "' cannot be the name of a header");
    if (has_control(each.value)) return invalid("header '" + each.name + "' has a line break or the like in its value");
  }
  const Url url;
  if (const CURLUcode code = curl_url_set(url.url, CURLUPART_URL, request.url.c_str(), CURLU_NON_SUPPORT_SCHEME);
      code != CURLUE_OK || has_control(request.url)) {
    return invalid("'" + request.url.substr(0, 200) + "' is no URL: " + curl_url_strerror(code));
  }
  const std::string scheme = url.part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return invalid("a URL begins with http:// or https://, not " + scheme);
  return {};
}

HttpTransfer::HttpTransfer(HttpRequest request, const HttpClientOptions& options, std::shared_ptr<StreamPipe> pipe,
                           Function<void()> on_cancel)
    : request_(std::move(request)),
      begun_(system_clock().now()),
      connect_timeout_(request_.connect_timeout > Duration::zero() ? request_.connect_timeout
                                                                   : options.connect_timeout),
      limit_(std::min(saturating_add(begun_, request_.timeout > Duration::zero() ? request_.timeout : options.timeout),
                      request_.deadline.value_or(Time::max()))),
      max_body_(request_.max_response_bytes != 0 ? request_.max_response_bytes : options.max_response_bytes),
      max_headers_(options.max_header_bytes),
      promise_("http", std::move(on_cancel)),
      pipe_(std::move(pipe)) {}

void HttpTransfer::set_method() {
  CURL* easy = easy_.get();
  const bool has_body =
      !request_.body.empty() || request_.method == "POST" || request_.method == "PUT" || request_.method == "PATCH";
  if (request_.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    return;
  }
  if (has_body) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.data());
  }
  if (request_.method != (has_body ? "POST" : "GET")) {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

void HttpTransfer::start(Easy easy, const HttpClientOptions& options, Time now) {
  easy_ = std::move(easy);
  state = State::kActive;
  CURL* const handle = easy_.get();
  curl_slist* list = curl_slist_append(nullptr, "Expect:");  // Else a large body waits a second for leave.
  for (const HttpHeader& each : request_.headers) {
    // A header without a value is written with a semicolon.
    const std::string line = each.value.empty() ? each.name + ";" : each.name + ": " + each.value;
    list = curl_slist_append(list, line.c_str());
  }
  header_list_.reset(list);

  curl_easy_setopt(handle, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_PROXY, options.proxy.c_str());
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, options.user_agent.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, header_list_.get());
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, options.max_redirects != 0 ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, static_cast<long>(options.max_redirects));
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(connect_timeout_));
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(limit_ - now));
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, options.verify_tls ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, options.verify_tls ? 2L : 0L);
  if (!options.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!pipe_) curl_easy_setopt(handle, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(max_body_));
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &HttpTransfer::on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &HttpTransfer::on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, &HttpTransfer::on_tls);
  curl_easy_setopt(handle, CURLOPT_SSL_CTX_DATA, this);
  set_method();
}

std::size_t HttpTransfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->take_header({data, size * count});
}
// There is a connection. (CURLINFO_CONNECT_TIME does not tell: it is set only once TLS has been agreed on.)
CURLcode HttpTransfer::on_tls(CURL*, void*, void* self) {
  static_cast<HttpTransfer*>(self)->tls_begun_ = true;
  return CURLE_OK;
}
std::size_t HttpTransfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->take_body({data, size * count});
}

std::size_t HttpTransfer::take_header(std::string_view line) {
  const std::size_t taken = line.size();
  header_bytes_ += taken;
  if (header_bytes_ > max_headers_) {
    refused_ = "its headers are larger than allowed";
    return 0;
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // A new answer, after a redirect or a 1xx.
    response_.headers.clear();
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      std::from_chars(line.data() + space + 1, line.data() + line.size(), response_.status);
    }
    return taken;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return taken;
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  response_.headers.push_back({std::string(line.substr(0, colon)), std::string(value)});
  return taken;
}

std::size_t HttpTransfer::take_body(std::string_view piece) {
  if (pipe_ && response_.status < 400) {
    paused_ = !pipe_->put(piece);
    return paused_ ? CURL_WRITEFUNC_PAUSE : piece.size();
  }
  if (response_.body.size() + piece.size() > max_body_) {
    refused_ = "its answer is larger than allowed";
    return 0;
  }
  response_.body.append(piece);
  return piece.size();
}

curl_off_t HttpTransfer::info(CURLINFO what) const {
  curl_off_t value = 0;
  curl_easy_getinfo(easy_.get(), what, &value);
  return value;
}

std::uint32_t HttpTransfer::connections_made() const {
  long made = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_NUM_CONNECTS, &made);
  return static_cast<std::uint32_t>(std::max(made, 0L));
}

// Without what may be secret.
std::string HttpTransfer::subject() const {
  const Url url;
  curl_url_set(url.url, CURLUPART_URL, request_.url.c_str(), 0);
  const std::string port = url.part(CURLUPART_PORT);
  return request_.method + " " + url.part(CURLUPART_SCHEME) + "://" + url.part(CURLUPART_HOST) +
         (port.empty() ? "" : ":" + port) + url.part(CURLUPART_PATH);
}

FailureType HttpTransfer::type_of_timeout() const {
  if (paused_) return FailureType::kCancelled;  // Who reads it was too slow, not who writes it.
  if (info(CURLINFO_PRETRANSFER_TIME_T) > 0 || limit_ - begun_ < connect_timeout_) return FailureType::kTimeout;
  if (tls_begun_) return FailureType::kTls;
  const Url url;
  curl_url_set(url.url, CURLUPART_URL, request_.url.c_str(), 0);
  const bool has_address = info(CURLINFO_NAMELOOKUP_TIME_T) > 0 || is_address(url.part(CURLUPART_HOST));
  return has_address ? FailureType::kConnect : FailureType::kDns;
}

FailureType HttpTransfer::type_of(CURLcode code) const {
  return code == CURLE_OPERATION_TIMEDOUT ? type_of_timeout() : classify_curl(code);
}

HttpAnswer HttpTransfer::answer_of(CURLcode code, Time now) {
  response_.latency = now - begun_;
  if (code == CURLE_OK) {
    response_.reused_connection = connections_made() == 0;
    if (const curl_off_t seconds = info(CURLINFO_RETRY_AFTER); seconds > 0) {
      response_.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 365LL * 24 * 3600));
    }
    return std::move(response_);
  }
  const FailureType type = type_of(code);
  const char* const told = error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(code);
  std::string text = subject() + ": " + std::string(to_string(type)) + ": ";
  text += refused_.empty() ? std::string_view(told) : refused_;
  const ErrorCode error = type == FailureType::kCancelled    ? ErrorCode::kCancelled
                          : code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::kTimedOut
                          : type == FailureType::kDecode     ? ErrorCode::kInternal
                                                             : ErrorCode::kUnavailable;
  return Failure{type, {error, std::move(text)}, {}, {}};
}

Easy HttpTransfer::finish(CURLcode code, Time now) {
  state = State::kDone;
  HttpAnswer answer = answer_of(code, now);
  settle(std::move(answer));
  return std::move(easy_);
}

Easy HttpTransfer::give_up(Error error) {
  state = State::kDone;
  error.message = subject() + ": " + error.message;
  settle(std::move(error));
  return std::move(easy_);
}

void HttpTransfer::fail(FailureType type, ErrorCode code, std::string_view what) {
  state = State::kDone;
  settle(HttpAnswer(Failure{type, {code, subject() + ": " + std::string(what)}, {}, {}}));
}

void HttpTransfer::settle(Result<HttpAnswer> answer) {
  promise_.settle(std::move(answer));
  if (pipe_) pipe_->end();
}

}  // namespace cohort::internal
