#include "plugin/http_step.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "chain/json_depth.h"
#include "cohort/base/percent.h"
#include "plugin/step_parameters.h"
#include "plugin/step_text.h"
#include "plugin/web_address.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxHeaders = 64;
constexpr std::size_t kMaxExpected = 32;
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::array<std::string_view, 5> kMethods = {"GET", "POST", "PUT", "PATCH", "DELETE"};
constexpr std::array<std::string_view, 11> kOwnHeaders = {
    "Host",    "Content-Length", "Transfer-Encoding", "Connection", "Idempotency-Key",    "TE",
    "Trailer", "Upgrade",        "Keep-Alive",        "Expect",     "Proxy-Authorization"};

Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

bool is_header_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// What a server makes of it: decoded, no part of it may lead upwards.
Result<void> check_path(std::string_view path) {
  if (!path.starts_with('/')) return invalid("it begins with '/'");
  const bool is_plain =
      std::ranges::all_of(path, [](char c) { return c > ' ' && c < '\x7f' && c != '#' && c != '\\'; });
  if (!is_plain)
    return invalid("it has a blank, '#', a backslash or the like in it, which is written as % and two digits");
  const std::optional<std::string> decoded = percent_decode(path.substr(0, path.find('?')));
  if (!decoded) return invalid("it has a % without two digits behind it");
  if (has_control(*decoded)) return invalid("it has a control character in it");
  std::string_view left = *decoded;
  for (;;) {
    const std::size_t end = left.find_first_of("/\\");
    const std::string_view part = left.substr(0, end);
    if (part == "." || part == "..") return invalid("a part of it is '.' or '..'");
    if (end == std::string_view::npos) return {};
    left.remove_prefix(end + 1);
  }
}

Result<void> read_text(const Json& value, std::string& text) {
  if (!value.is_string()) return invalid("it is a string");
  text = value.get<std::string>();
  return {};
}

Result<void> read_pool(const Json& value, HttpStep& step) {
  if (auto done = read_text(value, step.pool); !done) return done;
  if (step.pool.empty()) return invalid("it is the name of a pool");
  return {};
}

Result<void> read_path(const Json& value, HttpStep& step) {
  if (auto done = read_text(value, step.path); !done) return done;
  if (auto done = check_step_text(step.path); !done) return done;
  return check_path(step.path);
}

Result<void> read_url(const Json& value, HttpStep& step) {
  if (auto done = read_text(value, step.url); !done) return done;
  if (const Result<WebAddress> address = parse_web_address(step.url); !address) return address.error();
  return {};
}

Result<void> read_method(const Json& value, HttpStep& step) {
  if (auto done = read_text(value, step.method); !done) return done;
  if (std::ranges::find(kMethods, step.method) != kMethods.end()) return {};
  return invalid("it is GET, POST, PUT, PATCH or DELETE");
}

Result<void> check_header(std::string_view name, const Json& value) {
  if (!is_header_name(name)) return invalid("this cannot be the name of a header");
  if (std::ranges::any_of(kOwnHeaders, [&](std::string_view own) { return same_header_name(own, name); })) {
    return invalid("this header is written for you");
  }
  if (!value.is_string()) return invalid("it is a string");
  const auto& text = value.get_ref<const std::string&>();
  if (has_control(text)) return invalid("it has a line break or the like in it");
  return check_step_text(text);
}

Result<void> read_headers(const Json& value, HttpStep& step) {
  if (!value.is_object()) return invalid("it is an object of strings");
  if (value.size() > kMaxHeaders) return invalid("there are at most 64");
  for (auto each = value.begin(); each != value.end(); ++each) {
    if (auto checked = check_header(each.key(), *each); !checked) {
      return at_place("." + each.key().substr(0, kMaxNameBytes), checked.error());
    }
    step.headers.push_back({each.key(), each->get<std::string>()});
  }
  return {};
}

Result<void> read_body(const Json& value, HttpStep& step) {
  if (is_too_deep(value)) return invalid("it is nested too deep");
  step.body = value;
  return check_step_texts(value);
}

Result<void> read_output(const Json& value, HttpStep& step) {
  if (auto done = read_text(value, step.output); !done) return done;
  if (step.output.size() > kMaxNameBytes) return invalid("it has at most 128 bytes");
  return {};
}

Result<void> read_expect(const Json& value, HttpStep& step) {
  if (!value.is_array() || value.size() > kMaxExpected) return invalid("it is a list of at most 32 statuses");
  for (const Json& each : value) {
    if (!each.is_number_integer() || each < 200 || each > 599) return invalid("a status is a number from 200 to 599");
    step.expect.push_back(each.get<int>());
  }
  return {};
}

constexpr StepParameters<HttpStep, 8> kParameters = {{
    {{"pool", "text", "", "The pool of the configuration (`providers`) that is called. Either `pool` or `url`."},
     read_pool},
    {{"path", "text", "", "What is put behind the URL of the pool; it begins with `/`."}, read_path},
    {{"url", "text", "", "The `http://` or `https://` URL that is called. Either `pool` or `url`."}, read_url},
    {{"method", "GET, POST, PUT, PATCH or DELETE", "POST", "The method."}, read_method},
    {{"headers", "object of texts, at most 64", "{}",
      "Headers of the request. `Idempotency-Key` is added, with the token of the step."},
     read_headers},
    {{"body", "any JSON", "", "The body of the request; see below for the default."}, read_body},
    {{"output", "text, at most 128 bytes", "response",
      "The key in the context for `{\"status\", \"body\"}` of the answer. The empty text merges the answer's body, "
      "which must then be a JSON object."},
     read_output},
    {{"expect", "list of at most 32 numbers, 200 to 599", "[]", "Statuses that are a success, besides 200 to 299."},
     read_expect},
}};

Result<std::string> body_of(const HttpStep& step, const StepContext& context) {
  Json body;
  if (step.body) {
    Result<Json> filled = fill_in_all(*step.body, context);
    if (!filled) return at_place("parameters.body", filled.error());
    body = *std::move(filled);
  } else if (step.method == "GET" || step.method == "DELETE") {
    return std::string();
  } else {
    body = {{"task_id", context.task_id()},
            {"group", context.group()},
            {"payload", context.payload()},
            {"context", context.context()}};
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_json(std::string_view type) {
  const std::size_t end = std::min(type.find_first_of("; \t"), type.size());
  std::string name(type.substr(0, end));
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name == "application/json" || name == "text/json" || name.ends_with("+json");
}

// What is no text at all is made one, for it becomes part of a JSON text.
Json as_text(const std::string& bytes) {
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
}

Json body_of(const HttpResponse& response) {
  if (!is_json(response.header("content-type"))) return as_text(response.body);
  bool is_deep = false;
  // What lies too deep is not even built.
  const auto limit = [&](int depth, Json::parse_event_t, const Json&) {
    is_deep = is_deep || depth > kMaxJsonDepth - 8;  // It will lie in the context, and that in a task.
    return !is_deep;
  };
  Json body = Json::parse(response.body, limit, false);
  return body.is_discarded() || is_deep ? as_text(response.body) : body;
}

}  // namespace

bool HttpStep::is_success(int status) const {
  return (status >= 200 && status < 300) || std::ranges::find(expect, status) != expect.end();
}

Result<HttpStep> parse_http_step(const Json& parameters) {
  Result<HttpStep> read = read_parameters(kParameters, parameters);
  if (!read) return read;
  const HttpStep& step = *read;
  if (step.pool.empty() == step.url.empty()) return invalid("parameters: it is either a pool or a url that is called");
  if (!step.url.empty() && !step.path.empty()) return invalid("parameters.path: it is for a pool; a url has its own");
  return step;
}

std::vector<ParameterInfo> http_parameters() { return infos_of(kParameters); }

Result<HttpRequest> make_request(const HttpStep& step, const StepContext& context) {
  Result<std::string> body = body_of(step, context);
  if (!body) return body.error();
  HttpRequest request(step.method, step.url);
  request.body = *std::move(body);
  if (!step.path.empty()) {
    Result<std::string> path = fill_in(step.path, context, TextEncoding::kPercent);
    const Result<void> checked = path ? check_path(*path) : path.error();
    if (!checked) return invalid("parameters.path: " + checked.error().message);
    request.url = *std::move(path);
  }
  bool has_type = request.body.empty();
  for (const HttpHeader& each : step.headers) {
    Result<std::string> value = fill_in(each.value, context, TextEncoding::kPlain);
    if (value && has_control(*value)) value = invalid("a value brings a line break or the like into it");
    if (!value) return invalid("parameters.headers." + each.name + ": " + value.error().message);
    has_type = has_type || same_header_name(each.name, "Content-Type");
    request.headers.push_back({each.name, *std::move(value)});
  }
  if (!has_type) request.headers.push_back({"Content-Type", "application/json"});
  request.headers.push_back({"Idempotency-Key", context.idempotency_token()});
  return request;
}

Result<Json> outputs_of(const HttpStep& step, const HttpResponse& response) {
  Json body = body_of(response);
  if (!step.output.empty()) return Json{{step.output, {{"status", response.status}, {"body", std::move(body)}}}};
  if (body.is_object()) return body;
  return invalid("the answer is no JSON object, so it cannot be merged into the context; name an output to keep it");
}

}  // namespace cohort
