#include "cohort/provider/http/http_message.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

namespace cohort {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// The beginning of a body, fit for one line of a log.
std::string excerpt(std::string_view body) {
  constexpr std::size_t kMost = 200;
  std::string text(body.substr(0, kMost));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return body.size() > kMost ? text + "…" : text;
}

ErrorCode code_of(int status, FailureType type) {
  switch (type) {
    case FailureType::kHttp429: return ErrorCode::kRejected;
    case FailureType::kTimeout: return ErrorCode::kTimedOut;
    case FailureType::kHttpAuth:
    case FailureType::kHttp4xx:
      return status == 404 || status == 410 ? ErrorCode::kNotFound
             : status == 409                ? ErrorCode::kConflict
                                            : ErrorCode::kInvalid;
    default: return ErrorCode::kUnavailable;
  }
}

}  // namespace

bool same_header_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpResponse::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const HttpHeader& each) { return same_header_name(each.name, name); });
  return found == headers.end() ? std::string_view() : found->value;
}

std::optional<Duration> parse_retry_after(std::string_view value, std::int64_t now) {
  constexpr std::int64_t kMost = 365LL * 24 * 3600;
  if (value.empty()) return std::nullopt;
  if (std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
    std::int64_t seconds = kMost;
    std::from_chars(value.data(), value.data() + value.size(), seconds);  // Out of range: it stays the most.
    return std::chrono::seconds(std::min(seconds, kMost));
  }
  // Every form of a date in HTTP begins with the day of the week; curl_getdate takes much more than those.
  const bool is_word = (value[0] | 0x20) >= 'a' && (value[0] | 0x20) <= 'z';
  const std::time_t date = is_word ? curl_getdate(std::string(value).c_str(), nullptr) : -1;
  if (date < 0) return std::nullopt;
  return std::chrono::seconds(std::clamp<std::int64_t>(date - now, 0, kMost));
}

HttpAnswer require_success(HttpAnswer answer) {
  const HttpResponse* response = std::get_if<HttpResponse>(&answer);
  if (response == nullptr) return answer;
  const FailureType type = classify_status(response->status, response->retry_after.has_value());
  if (type == FailureType::kSuccess) return answer;
  std::string text = "HTTP " + std::to_string(response->status);
  // A gateway that finds nobody behind it says nothing about the request.
  const bool is_gateway = response->status >= 502 && response->status <= 504;
  Failure failure{type, {}, response->retry_after, is_gateway ? std::string() : text};
  if (!response->body.empty()) text += ": " + excerpt(response->body);
  failure.error = {code_of(response->status, type), std::move(text)};
  return failure;
}

FailureType classify_curl(int code) {
  switch (code) {
    case CURLE_OK: return FailureType::kSuccess;
    case CURLE_OPERATION_TIMEDOUT: return FailureType::kTimeout;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return FailureType::kDns;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_SHUTDOWN_FAILED:
    case CURLE_USE_SSL_FAILED: return FailureType::kTls;
    case CURLE_COULDNT_CONNECT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_INTERFACE_FAILED:
    case CURLE_PROXY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP3:
    case CURLE_QUIC_CONNECT_ERROR: return FailureType::kConnect;
    // The URL was looked at before, so a protocol that is not spoken is an answer that is not HTTP.
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_FILESIZE_EXCEEDED:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_WRITE_ERROR: return FailureType::kDecode;
    case CURLE_URL_MALFORMAT: return FailureType::kHttp4xx;
    case CURLE_ABORTED_BY_CALLBACK: return FailureType::kCancelled;
    default: return FailureType::kUnknown;
  }
}

}  // namespace cohort
