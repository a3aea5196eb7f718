#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"
#include "cohort/provider/http/http_message.h"

namespace cohort {

/// The parameters of a step "http".
struct HttpStep {
  std::string pool = {};  ///< Empty: `url` it is.
  std::string path = {};
  std::string url = {};
  std::string method = "POST";
  std::vector<HttpHeader> headers = {};
  std::optional<nlohmann::json> body = {};
  std::string output = "response";  ///< Empty: what the answer holds.
  std::vector<int> expect = {};     ///< Success, besides those below 300.

  [[nodiscard]] bool is_success(int status) const;
};

/// kInvalid, with the place. Whether there is such a pool is not looked at.
[[nodiscard]] Result<HttpStep> parse_http_step(const nlohmann::json& parameters);

/// With the values filled in. The request's URL is the step's, or of a pool's the path alone.
[[nodiscard]] Result<HttpRequest> make_request(const HttpStep& step, const StepContext& context);

/// What an answer puts out: `{"response": {"status": 200, "body": …}}`, where the body is JSON or text.
/// kInvalid: it cannot be merged into the context.
[[nodiscard]] Result<nlohmann::json> outputs_of(const HttpStep& step, const HttpResponse& response);

}  // namespace cohort
