#include "cli/client.h"

#include <optional>

#include "cli/fields.h"
#include "cohort/base/percent.h"

namespace cohort {

using nlohmann::json;

namespace {

using namespace std::chrono_literals;

// The node pings its streams more often than that; a single call that takes as long is given up.
constexpr Duration kSilence = 60s;
constexpr std::size_t kMaxAnswerBytes = 64U << 20U;

std::string failure_text(const Failure& failure) {
  return failure.error.message.empty() ? std::string(to_string(failure.type)) : failure.error.message;
}

/// The lines of a problem that has several.
std::string problem_lines(const json& problem) {
  std::string out;
  for (const json& each : list(problem, "problems")) {
    if (each.is_string()) out += "\n  - " + each.get<std::string>();
  }
  return out;
}

}  // namespace

Result<ApiClient> ApiClient::make(std::string node) {
  if (node.find("://") == std::string::npos) node.insert(0, "http://");
  while (node.ends_with('/')) node.pop_back();
  const std::size_t host = node.find("://") + 3;
  const bool is_http = node.starts_with("http://") || node.starts_with("https://");
  if (!is_http || host >= node.size() || node.find_first_of("?# \t\r\n", host) != std::string::npos) {
    return Error{ErrorCode::kInvalid, "'" + node + "' is not the address of a node; write http://host:port"};
  }
  HttpClientOptions options;
  options.timeout = kSilence;
  options.max_response_bytes = kMaxAnswerBytes;
  options.user_agent = "cohort-cli";
  Result<std::unique_ptr<HttpClient>> http = HttpClient::make(std::move(options));
  if (!http) return http.error();
  return ApiClient(std::move(node), *std::move(http));
}

Result<json> ApiClient::ask(Operation operation, const std::vector<std::string>& arguments, const json& body) {
  const std::string at = url(path_of(operation, arguments), {});
  const std::string_view method = api_route(operation).method;
  if (method == "GET") return call(HttpRequest(at));
  // On a fresh connection, because one that was kept may send the request a second time.
  HttpRequest request(std::string(method), at);
  if (method == "DELETE") return call(std::move(request).with_fresh_connection());
  return call(std::move(request)
                  .with_header("Content-Type", "application/json")
                  .with_body(body.dump(-1, ' ', false, json::error_handler_t::replace))
                  .with_fresh_connection());
}

Result<json> ApiClient::look(Operation operation, const Query& query) {
  return call(HttpRequest(url(path_of(operation), query)));
}

Result<ApiClient::StreamEnd> ApiClient::stream(Operation operation, const Query& query,
                                               const std::string& last_event_id, std::stop_token stop,
                                               const std::function<bool(std::string_view)>& sink) {
  HttpRequest request(url(path_of(operation), query));
  request.headers.push_back({"Accept", "text/event-stream"});
  if (!last_event_id.empty()) request.headers.push_back({"Last-Event-ID", last_event_id});
  request.stop = std::move(stop);
  bool has_begun = false;
  HttpAnswer answer = http_->stream(std::move(request), [&](std::string_view bytes) {
    has_begun = true;
    return sink(bytes);
  });
  if (const auto* response = std::get_if<HttpResponse>(&answer)) {
    if (response->status != 200) return refused(*response);
    return StreamEnd{.wanted = false, .reason = "the node ended the stream"};
  }
  const Failure& failure = std::get<Failure>(answer);
  if (failure.type == FailureType::kCancelled) return StreamEnd{.wanted = true};
  if (!has_begun) return unreachable(failure);
  return StreamEnd{.wanted = false, .reason = failure_text(failure)};
}

Result<json> ApiClient::call(HttpRequest request) {
  HttpAnswer answer = http_->fetch(std::move(request));
  if (const auto* failure = std::get_if<Failure>(&answer)) return unreachable(*failure);
  const HttpResponse& response = std::get<HttpResponse>(answer);
  if (response.status < 200 || response.status >= 300) return refused(response);
  if (response.status == 204 || response.body.empty()) return json();
  Result<json> value = parse_json(response.body);
  if (value) return value;
  return Error{ErrorCode::kInternal,
               "what answers at " + node_ + " does not speak Cohort's API: " + value.error().message};
}

Error ApiClient::unreachable(const Failure& failure) const {
  const FailureType type = failure.type;
  if (type == FailureType::kConnect || type == FailureType::kDns) {
    return {ErrorCode::kUnavailable, "no node answers at " + node_ + "; start one with `cohort serve`"};
  }
  if (type == FailureType::kTimeout) {
    return {ErrorCode::kUnavailable, "the node at " + node_ + " did not answer in time; it may be overloaded"};
  }
  if (type == FailureType::kHttp4xx || type == FailureType::kDecode) {
    return {ErrorCode::kInternal, "the call to " + node_ + " failed: " + failure_text(failure)};
  }
  return {ErrorCode::kUnavailable, "the node at " + node_ + " cannot be reached: " + failure_text(failure)};
}

Error ApiClient::refused(const HttpResponse& response) const {
  const bool may_pass = response.status == 429 || response.status == 503 || response.status == 504;
  const ErrorCode code = response.status == 404 ? ErrorCode::kNotFound
                         : may_pass             ? ErrorCode::kRejected
                                                : ErrorCode::kConflict;
  const Result<json> problem = parse_json(response.body);
  const std::string detail = problem ? raw_text(*problem, "detail") : "";
  if (!detail.empty()) return {code, detail + problem_lines(*problem)};
  return {ErrorCode::kInternal, "what answers at " + node_ + " said " + std::to_string(response.status) +
                                    " and not why; is it a Cohort node?"};
}

std::string ApiClient::url(const std::string& path, const Query& query) const {
  std::string out = node_ + path;
  char separator = '?';
  for (const auto& [name, value] : query) {
    if (value.empty()) continue;
    out += separator + name + "=" + percent_encode(value);
    separator = '&';
  }
  return out;
}

}  // namespace cohort
