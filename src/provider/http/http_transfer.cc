#include "provider/http/http_transfer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <utility>

#include "provider/http/address_rules.h"

namespace cohort::internal {
namespace {

constexpr std::size_t kMaxUrlBytes = 8192;

// How a message is framed is the client's business: who could write these could put a second request into the first.
constexpr std::array<std::string_view, 8> kOwnHeaders = {"content-length", "transfer-encoding", "connection", "te",
                                                         "trailer",        "upgrade",           "keep-alive", "expect"};

bool is_own_header(std::string_view name) {
  return std::ranges::any_of(kOwnHeaders, [&](std::string_view own) { return same_header_name(own, name); });
}

// Fit for a message: short, and on one line.
std::string quoted(std::string_view text) {
  std::string shown(text.substr(0, 60));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return "'" + shown + "'";
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

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
  if (request.method == "CONNECT") return invalid("CONNECT is not for clients of an answer");
  if (!is_token(request.method)) return invalid(quoted(request.method) + " is no HTTP method");
  for (const HttpHeader& each : request.headers) {
    if (!is_token(each.name)) return invalid(quoted(each.name) + " cannot be the name of a header");
    if (has_control(each.value))
      return invalid("header " + quoted(each.name) + " has a line break or the like in its value");
    if (is_own_header(each.name)) return invalid("header " + quoted(each.name) + " is for the client to write");
    if (same_header_name(each.name, "host") && trimmed(each.value).empty()) return invalid("the Host header is empty");
  }
  const Url url;
  if (const CURLUcode code = curl_url_set(url.url, CURLUPART_URL, request.url.c_str(), CURLU_NON_SUPPORT_SCHEME);
      code != CURLUE_OK || has_control(request.url)) {
    return invalid(std::string("this is no URL: ") +
                   (code != CURLUE_OK ? curl_url_strerror(code) : "control characters"));
  }
  const std::string scheme = url.part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return invalid("a URL begins with http:// or https://, not " + scheme);
  return {};
}

namespace {

// A stream lasts as long as it likes unless its own request has a time-out. A deadline may be hours away.
Time end_by_timeout(const HttpRequest& request, const HttpClientOptions& options, bool is_stream, Time begun) {
  if (request.timeout != Duration::zero()) return saturating_add(begun, request.timeout);
  return is_stream ? Time::max() : saturating_add(begun, options.timeout);
}

}  // namespace

HttpTransfer::HttpTransfer(HttpRequest request, const HttpClientOptions& options, std::shared_ptr<StreamPipe> pipe,
                           Function<void()> on_cancel)
    : request_(std::move(request)),
      begun_(system_clock().now()),
      connect_timeout_(request_.connect_timeout > Duration::zero() ? request_.connect_timeout
                                                                   : options.connect_timeout),
      limit_(std::min(end_by_timeout(request_, options, pipe != nullptr, begun_),
                      request_.deadline.value_or(Time::max()))),
      silence_limit_(pipe != nullptr && request_.timeout == Duration::zero() ? options.timeout : Duration::zero()),
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
  started_ = last_heard_ = now;
  was_sent_.store(true, std::memory_order_relaxed);
  CURL* const handle = easy_.get();
  curl_slist* list = curl_slist_append(nullptr, "Expect:");  // Else a large body waits a second for leave.
  bool has_type = false;
  for (const HttpHeader& each : request_.headers) {
    // A header without a value is written with a semicolon.
    const std::string value(trimmed(each.value));
    list = curl_slist_append(list, (value.empty() ? each.name + ";" : each.name + ": " + value).c_str());
    has_type = has_type || same_header_name(each.name, "content-type");
  }
  if (!has_type) list = curl_slist_append(list, "Content-Type:");  // Else libcurl calls every body a form.
  header_list_.reset(list);

  curl_easy_setopt(handle, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, request_.url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(handle, CURLOPT_PROXY, options.proxy.c_str());
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "");
  if (!options.allow_private_addresses) {
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &HttpTransfer::on_socket);
    curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, this);
  }
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT,
                   1L);  // Else a call that ends waits for its getaddrinfo, and all others too.
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, options.user_agent.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, header_list_.get());
  const bool follows = options.max_redirects != 0 && (request_.method == "GET" || request_.method == "HEAD");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, follows ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_MAXREDIRS, static_cast<long>(options.max_redirects));
  curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, options.max_idle_connections == 0 ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, request_.fresh_connection ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(connect_timeout_));
  if (limit_ != Time::max()) {
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(limit_ - now));
  }
  if (silence_limit_ != Duration::zero() && !request_.body.empty()) {  // A server that is being told something listens.
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &HttpTransfer::on_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  }
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, options.verify_tls ? 1L : 0L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, options.verify_tls ? 2L : 0L);
  if (!options.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!pipe_ && request_.method != "HEAD") {
    curl_easy_setopt(handle, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(max_body_));
  }
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
// The name has been looked up, and this very address is about to be connected to: what a name server says later, or a
// redirect, comes by here too.
curl_socket_t HttpTransfer::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  if (is_public_address(address->addr)) {
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }
  static_cast<HttpTransfer*>(self)->private_address_ = text_of_address(address->addr);
  return CURL_SOCKET_BAD;
}
// There is a connection. (CURLINFO_CONNECT_TIME does not tell: it is set only once TLS has been agreed on.)
CURLcode HttpTransfer::on_tls(CURL*, void*, void* self) {
  static_cast<HttpTransfer*>(self)->tls_begun_ = true;
  return CURLE_OK;
}
std::size_t HttpTransfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->take_body({data, size * count});
}

int HttpTransfer::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  if (sent > std::exchange(transfer.sent_, sent)) transfer.last_heard_ = system_clock().now();
  return 0;
}

std::size_t HttpTransfer::take_header(std::string_view line) {
  const std::size_t taken = line.size();
  header_bytes_ += taken;
  if (pipe_) last_heard_ = system_clock().now();
  if (header_bytes_ > max_headers_) {
    refused_ = "its headers are larger than allowed";
    return 0;
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  if (body_begun_) return taken;  // A trailer.
  if (line.empty()) {
    expects_status_ = true;
    return taken;
  }
  if (std::exchange(expects_status_, false)) {  // A new answer, after a redirect or a 1xx.
    response_.headers.clear();
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      std::from_chars(line.data() + space + 1, line.data() + line.size(), response_.status);
    }
    return taken;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return taken;
  response_.headers.push_back({std::string(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))});
  return taken;
}

std::size_t HttpTransfer::take_body(std::string_view piece) {
  body_begun_ = true;
  if (pipe_ && response_.status < 400) {
    last_heard_ = system_clock().now();
    paused_ = !pipe_->put(piece);
    return paused_ ? CURL_WRITEFUNC_PAUSE : piece.size();
  }
  if (response_.body.size() + piece.size() > max_body_) {
    refused_ = "its answer is larger than allowed";
    is_too_large_ = true;
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
  if (curl_url_set(url.url, CURLUPART_URL, request_.url.c_str(), 0) != CURLUE_OK || has_control(request_.method)) {
    return "HTTP request";
  }
  const std::string port = url.part(CURLUPART_PORT);
  return request_.method + " " + url.part(CURLUPART_SCHEME) + "://" + url.part(CURLUPART_HOST) +
         (port.empty() ? "" : ":" + port) + url.part(CURLUPART_PATH);
}

FailureType HttpTransfer::type_of_timeout() const {
  if (paused_) return FailureType::kLocal;                                // The reader was too slow, not the server.
  if (started_ - begun_ > limit_ - started_) return FailureType::kLocal;  // Most of its time it waited for its turn.
  if (info(CURLINFO_PRETRANSFER_TIME_T) > 0 || limit_ - started_ < connect_timeout_) return FailureType::kTimeout;
  if (tls_begun_) return FailureType::kTls;
  const Url url;
  curl_url_set(url.url, CURLUPART_URL, request_.url.c_str(), 0);
  const bool has_address = info(CURLINFO_NAMELOOKUP_TIME_T) > 0 || is_address(url.part(CURLUPART_HOST));
  return has_address ? FailureType::kConnect : FailureType::kDns;
}

FailureType HttpTransfer::type_of(CURLcode code) const {
  if (code == CURLE_OPERATION_TIMEDOUT) return type_of_timeout();
  if (lacks_means(code)) return FailureType::kLocal;
  const std::string_view told(error_text_.data());
  if (code == CURLE_RECV_ERROR && told.find("chunk") != std::string_view::npos) return FailureType::kDecode;
  return classify_curl(code);
}

// We, not they, have no descriptors, ports or memory left.
bool HttpTransfer::lacks_means(CURLcode code) const {
  if (code == CURLE_OUT_OF_MEMORY || code == CURLE_FAILED_INIT) return true;
  // Names are looked up and certificates are read with descriptors too, and libcurl does not say what was missing.
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_COULDNT_CONNECT) {
    const int spare = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (spare < 0) return is_shortage(errno);
    ::close(spare);
  }
  long number = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &number);
  return code == CURLE_COULDNT_CONNECT &&
         (number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS || number == EADDRNOTAVAIL);
}

Failure HttpTransfer::private_address_failure() const {
  char* last = nullptr;  // After redirects.
  curl_easy_getinfo(easy_.get(), CURLINFO_EFFECTIVE_URL, &last);
  const Url url;
  curl_url_set(url.url, CURLUPART_URL, last != nullptr ? last : request_.url.c_str(), 0);
  std::string text = subject() + ": the address " + private_address_ + " of " + quoted(url.part(CURLUPART_HOST)) +
                     " is private; only public ones may be called here";
  return {FailureType::kHttp4xx, {ErrorCode::kInvalid, std::move(text)}, {}, {}};
}

HttpAnswer HttpTransfer::answer_of(CURLcode code, Time now) {
  response_.latency = now - begun_;
  // A server that says what is wrong has been understood, even if the end of what it says is missing.
  const bool has_status = response_.status >= 400 && expects_status_ && header_bytes_ <= max_headers_;
  if (code == CURLE_OK || has_status) {
    response_.reused_connection = connections_made() == 0;
    response_.retry_after = parse_retry_after(response_.header("retry-after"), std::time(nullptr));
    return std::move(response_);
  }
  if (code == CURLE_COULDNT_CONNECT && !private_address_.empty()) return private_address_failure();
  const FailureType type = type_of(code);
  const char* const told = error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(code);
  std::string text = subject() + ": " + std::string(to_string(type)) + ": ";
  text += refused_.empty() ? std::string_view(told) : refused_;
  const ErrorCode error = lacks_means(code)                  ? ErrorCode::kRejected
                          : code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::kTimedOut
                          : type == FailureType::kCancelled  ? ErrorCode::kCancelled
                          : type == FailureType::kDecode     ? ErrorCode::kInternal
                                                             : ErrorCode::kUnavailable;
  const bool too_large = (is_too_large_ || code == CURLE_FILESIZE_EXCEEDED) && response_.status < 500;
  return Failure{type, {error, std::move(text)}, {}, too_large ? std::string(kTooLarge) : std::string()};
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
