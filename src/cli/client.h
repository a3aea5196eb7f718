#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/routes.h"
#include "cohort/base/result.h"
#include "cohort/provider/http/http_client.h"

namespace cohort {

/// Names and values behind the '?' of a URL. Those without a value are left out.
using Query = std::vector<std::pair<std::string, std::string>>;

/// The HTTP API of one node.
///
/// A call that gives nothing fails with one of: kUnavailable, no node answers there; kNotFound, the node knows no such
/// thing; kRejected, it refused for another reason, with its own words as the message; kInternal, what answers does not
/// speak this API.
///
/// Thread-safety: thread-safe. Calls block.
class ApiClient {
 public:
  /// `node`: "http://host:port", or "host:port". kInvalid: it is neither.
  static Result<ApiClient> make(std::string node);

  /// Asks by the route's own method and path; the arguments replace the placeholders of the path.
  Result<nlohmann::json> ask(Operation operation, const std::vector<std::string>& arguments = {},
                             const nlohmann::json& body = nlohmann::json::object());
  /// Asks a route without arguments for a part of what it has.
  Result<nlohmann::json> look(Operation operation, const Query& query = {});

  /// How a stream ended that the node did not refuse.
  struct StreamEnd {
    bool wanted = false;  ///< `sink` said so, or the stop.
    std::string reason{};
  };
  /// Gives an event stream to `sink` until it ends, `sink` says false, or `stop`. kUnavailable: no node answered.
  Result<StreamEnd> stream(Operation operation, const Query& query, const std::string& last_event_id,
                           std::stop_token stop, const std::function<bool(std::string_view)>& sink);

  [[nodiscard]] const std::string& node() const { return node_; }

 private:
  ApiClient(std::string node, std::unique_ptr<HttpClient> http) : node_(std::move(node)), http_(std::move(http)) {}

  Result<nlohmann::json> call(HttpRequest request);
  [[nodiscard]] Error unreachable(const Failure& failure) const;
  [[nodiscard]] Error refused(const HttpResponse& response) const;
  [[nodiscard]] std::string url(const std::string& path, const Query& query) const;

  std::string node_;
  std::unique_ptr<HttpClient> http_;
};

}  // namespace cohort
