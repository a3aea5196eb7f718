#include "cohort/plugin/http_plugin.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "cohort/provider/http/http_client.h"
#include "plugin/breaker_log.h"
#include "plugin/http_step.h"
#include "plugin/origin_routers.h"
#include "plugin/web_address.h"

namespace cohort {
namespace {

constexpr std::size_t kMaxResponse = 16U << 20U;
// Who asks to be left alone for longer is asked again all the same: a task has a deadline of its own.
constexpr Duration kLongestWait = std::chrono::hours(1);

Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }

// Whom a step calls.
struct Target {
  HttpClient* client;
  std::shared_ptr<Router> router;
  const std::vector<std::string>* bases;  // What is put before the request's URL, by the router's provider.
  Duration timeout;
};

struct Pool {
  std::vector<std::string> bases;
  std::shared_ptr<Router> router;
  Duration timeout;
};

// What the tries of one call have come to so far.
struct Tries {
  std::optional<Failure> last;
  bool may_pass = true;
  std::optional<Duration> soonest;  // To ask again, where everybody has said so.
  bool all_said_when = true;

  void note(const Failure& failure, bool passes) {
    last = failure;
    may_pass = passes;
    all_said_when = all_said_when && failure.retry_after.has_value();
    if (failure.retry_after) soonest = std::min(soonest.value_or(*failure.retry_after), *failure.retry_after);
  }
  [[nodiscard]] std::optional<Duration> wait() const {
    return all_said_when && soonest ? std::optional(std::min(*soonest, kLongestWait)) : std::nullopt;
  }
};

std::string shown(const HttpRequest& request) {
  const Result<WebAddress> address = parse_web_address(request.url);
  return request.method + " " + (address ? address->shown() : "(no URL)");
}

void log_try(StepContext& context, const std::string& what, const HttpAnswer& answer, Duration took) {
  const auto* const response = std::get_if<HttpResponse>(&answer);
  const std::string end =
      response != nullptr ? std::to_string(response->status) : std::string(to_string(std::get<Failure>(answer).type));
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  context.log(what + " " + end + " in " + std::to_string(whole) + " ms");
}

// An answer that is no success becomes the failure that it means. A request that asks for too much, or for another
// place, is to blame itself: nobody else is asked, and it counts against nobody.
HttpAnswer judge(const HttpStep& step, HttpAnswer answer, const std::string& what, bool auth_is_failure, Tries& tries) {
  const auto* const response = std::get_if<HttpResponse>(&answer);
  const int status = response != nullptr ? response->status : 0;
  if (response != nullptr && step.is_success(status)) return answer;
  if (response != nullptr && status < 400) {
    Error error = invalid("HTTP " + std::to_string(status) + ", and redirects are not followed");
    answer = Failure{FailureType::kHttp4xx, std::move(error), {}, {}};
  }
  answer = require_success(std::move(answer));
  Failure& failure = std::get<Failure>(answer);
  if (status != 0) failure.error.message = what + ": " + failure.error.message;
  if (failure.detail == kTooLarge) failure.type = FailureType::kHttp4xx;
  const bool is_wrong =
      failure.type == FailureType::kHttp4xx || (failure.type == FailureType::kHttpAuth && !auth_is_failure);
  tries.note(failure, status == 425 || !is_wrong);
  return answer;
}

PluginResult result_of_failure(const Routed<HttpResponse>& routed, const Tries& tries, const Clock& clock) {
  const std::string& reason = routed.result.error().message;
  if (tries.last && !tries.may_pass) return PluginResult::failure(reason);
  if (tries.last && tries.last->type == FailureType::kLocal) return PluginResult::interrupted(reason, tries.wait());
  if (routed.end == RouteEnd::kAllOpen && routed.retry_at) {
    const Duration wait = std::clamp<Duration>(*routed.retry_at - clock.now(), Duration::zero(), kLongestWait);
    return PluginResult::retry(reason, wait);
  }
  return PluginResult::retry(reason, tries.wait());
}

PluginResult call(const Target& target, const HttpStep& step, const HttpRequest& request, StepContext& context) {
  Tries tries;
  const Clock& clock = target.router->clock();
  const Routed<HttpResponse> routed = target.router->call(
      [&](const Attempt& attempt) -> HttpAnswer {
        HttpRequest one = request;
        one.url = (*target.bases)[attempt.index] + request.url;
        one.deadline = attempt.deadline;
        one.timeout = target.timeout;
        one.stop = attempt.stop;
        const std::string what = shown(one);
        const Time began = clock.now();
        HttpAnswer answer = target.client->fetch(std::move(one));
        log_try(context, what, answer, clock.now() - began);
        return judge(step, std::move(answer), what, target.router->options().auth_is_failure, tries);
      },
      CallOptions().with_stop(context.stop_token()));
  if (!routed.result) return result_of_failure(routed, tries, clock);
  Result<nlohmann::json> outputs = outputs_of(step, *routed.result);
  return outputs ? PluginResult::success(*std::move(outputs)) : PluginResult::failure(outputs.error().message);
}

class HttpPlugin final : public Plugin {
 public:
  explicit HttpPlugin(const HttpPluginOptions& options)
      : timeout_(options.timeout), origins_({.max_failover_attempts = 1, .timeout = options.timeout}) {}

  Result<void> start(const HttpPluginOptions& options);

  [[nodiscard]] Result<void> check(const nlohmann::json& parameters) const override {
    const Result<HttpStep> step = parse_http_step(parameters);
    return step ? check_target(*step) : step.error();
  }

  PluginResult run(StepContext& context) override {
    const Result<HttpStep> step = parse_http_step(context.parameters());
    if (!step) return PluginResult::failure(step.error().message);
    const Result<Target> target = target_of(*step);
    if (!target) return PluginResult::failure(target.error().message);
    const Result<HttpRequest> request = make_request(*step, context);
    if (!request) return PluginResult::failure(request.error().message);
    return call(*target, *step, *request, context);
  }

 private:
  Result<void> add_pool(const std::string& name, const HttpPool& options);
  [[nodiscard]] Result<void> check_target(const HttpStep& step) const;
  [[nodiscard]] Result<Target> target_of(const HttpStep& step);

  const Duration timeout_;
  std::map<std::string, Pool> pools_;
  OriginRouters origins_;
  const std::vector<std::string> no_base_ = {""};
  // What the operator has named may be anywhere; what tasks bring may not. They share no connections.
  std::unique_ptr<HttpClient> pool_client_;
  std::unique_ptr<HttpClient> url_client_;  // Null: tasks bring none.
};

Result<std::string> base_of(const std::string& url) {
  const Result<WebAddress> address = parse_web_address(url);
  if (!address) return address.error();
  if (address->has_query || address->has_fragment) return invalid("there can be no '?' or '#' before a step's path");
  return url.substr(0, url.find_last_not_of('/') + 1);
}

Result<void> HttpPlugin::add_pool(const std::string& name, const HttpPool& options) {
  const auto wrong = [&](const std::string& text) { return invalid("HTTP pool '" + name + "': " + text); };
  if (name.empty()) return wrong("it needs a name");
  if (options.urls.empty() || options.urls.size() + options.backup_urls.size() > 64) {
    return wrong("it has at least one url, and 64 with its backup_urls at most");
  }
  if (options.max_attempts < 1 || options.max_attempts > 64) return wrong("max_attempts is 1 to 64");
  if (options.max_concurrent < 1) return wrong("max_concurrent is at least 1");
  if (options.timeout <= Duration::zero()) return wrong("timeout is above 0");
  Pool pool{.bases = {}, .router = {}, .timeout = options.timeout};
  std::vector<ProviderOptions> providers;
  const auto add = [&](const std::vector<std::string>& urls, const std::string& key,
                       std::uint32_t tier) -> Result<void> {
    for (std::size_t i = 0; i < urls.size(); ++i) {
      Result<std::string> base = base_of(urls[i]);
      if (!base) return wrong(key + "[" + std::to_string(i) + "]: " + base.error().message);
      providers.push_back({.name = parse_web_address(*base)->shown(),  // Names are shown; passwords are not.
                           .breaker = options.breaker,
                           .max_concurrent = options.max_concurrent,
                           .tier = tier});
      pool.bases.push_back(*std::move(base));
    }
    return {};
  };
  if (auto added = add(options.urls, "urls", 0); !added) return added;
  if (auto added = add(options.backup_urls, "backup_urls", 1); !added) return added;
  const RouterOptions router{.max_failover_attempts = options.max_attempts,
                             .timeout = options.timeout,
                             .total_budget = static_cast<double>(options.max_attempts),
                             .auth_is_failure = options.auth_is_failure,
                             .panic_share = options.panic_share};
  Result<std::shared_ptr<Router>> made = Router::make(providers, router);
  if (!made) return wrong(made.error().message);
  log_breakers(**made, name);
  pool.router = *std::move(made);
  pools_.emplace(name, std::move(pool));
  return {};
}

Result<void> HttpPlugin::start(const HttpPluginOptions& options) {
  if (options.timeout <= Duration::zero()) return invalid("the timeout of HTTP calls is above 0");
  if (options.max_response < 1 || options.max_response > kMaxResponse) {
    return invalid("max_response is " + std::to_string(options.max_response) + "; it is 1 byte to 16 MiB");
  }
  for (const auto& [name, pool] : options.pools) {
    if (auto added = add_pool(name, pool); !added) return added;
  }
  if (!pools_.empty()) {
    auto client = HttpClient::make({.max_response_bytes = options.max_response});
    if (!client) return client.error();
    pool_client_ = *std::move(client);
  }
  if (options.allow_urls) {
    auto client = HttpClient::make(
        {.max_response_bytes = options.max_response, .allow_private_addresses = options.allow_private});
    if (!client) return client.error();
    url_client_ = *std::move(client);
  }
  return {};
}

Result<void> HttpPlugin::check_target(const HttpStep& step) const {
  if (!step.url.empty()) {
    if (url_client_) return {};
    return invalid("parameters.url: tasks may not bring URLs to this node; name one of its pools");
  }
  if (pools_.contains(step.pool)) return {};
  std::string names;
  for (const auto& [name, pool] : pools_) names += (names.empty() ? "" : ", ") + name;
  return invalid("parameters.pool: there is no pool '" + step.pool.substr(0, 100) + "'; there " +
                 (names.empty() ? "are none" : "are: " + names));
}

Result<Target> HttpPlugin::target_of(const HttpStep& step) {
  if (auto checked = check_target(step); !checked) return checked.error();
  if (!step.pool.empty()) {
    const Pool& pool = pools_.at(step.pool);
    return Target{pool_client_.get(), pool.router, &pool.bases, pool.timeout};
  }
  const Result<WebAddress> address = parse_web_address(step.url);
  if (!address) return address.error();
  Result<std::shared_ptr<Router>> router = origins_.find(address->origin);
  if (!router) return router.error();
  return Target{url_client_.get(), *std::move(router), &no_base_, timeout_};
}

}  // namespace

Result<std::shared_ptr<Plugin>> make_http_plugin(HttpPluginOptions options) {
  auto plugin = std::make_shared<HttpPlugin>(options);
  if (auto started = plugin->start(options); !started) return started.error();
  return std::shared_ptr<Plugin>(std::move(plugin));
}

}  // namespace cohort
