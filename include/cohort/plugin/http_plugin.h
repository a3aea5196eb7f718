#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"
#include "cohort/provider/breaker.h"
#include "cohort/provider/router.h"

namespace cohort {

/// Several URLs that serve the same calls.
struct HttpPool {
  std::vector<std::string> urls = {};           ///< http:// or https://, to which a step's path is appended. 1 to 64.
  Duration timeout = std::chrono::seconds(10);  ///< Of one try.
  std::uint32_t max_attempts = 3;               ///< Tries of one call, each at another URL. 1 to 64.
  std::uint32_t max_concurrent = 50;            ///< Calls of one URL at a time.
  BreakerOptions breaker{};                     ///< Of each URL.
  /// Called only while none of `urls` may be: dearer, or farther away. Both together are at most 64.
  std::vector<std::string> backup_urls = {};
  bool auth_is_failure = false;  ///< See RouterOptions.
  double panic_share = 1;        ///< See RouterOptions.
};

struct HttpPluginOptions {
  std::map<std::string, HttpPool> pools = {};  ///< What the operator names may be anywhere.
  /// Whether a URL that a task brings may lead to a private, loopback or link-local address. Asked when the address is
  /// known, so a name that points there does not help.
  bool allow_private = false;
  bool allow_urls = true;                       ///< Whether tasks may bring URLs at all.
  Duration timeout = std::chrono::seconds(10);  ///< Of one call of such a URL.
  std::size_t max_response = 256U << 10U;       ///< 1 byte to 16 MiB.
};

/// The step "http": calls a pool of the operator, or a URL.
///
///     {"plugin": "http", "parameters": {"pool": "billing", "path": "/charge/{payload.customer}"}}
///     {"plugin": "http", "parameters": {"url": "https://example.com/hook", "body": {"task": "{task_id}"}}}
///
/// Parameters: "pool" with "path", or "url"; "method" (POST), "headers", "body" (any JSON; by default the step:
/// task_id, group, payload and context), "expect" (statuses that are success besides those below 300), "output" (the
/// key in the context for {"status", "body"}; "response" by default, "" merges the body of the answer). Path, header
/// values and texts in the body may have `{…}` for a value of the step, as arguments of "exec" do.
///
/// A header "Idempotency-Key" has the step's token. Around each URL of a pool and around each host of other URLs is a
/// circuit breaker; a pool fails over. 429 and 503 are tried again when Retry-After says; errors of the network, 5xx,
/// 408 and 425 as the retry policy says; other answers fail the task. Redirects are not followed.
///
/// kInvalid: a pool that cannot be.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_http_plugin(HttpPluginOptions options);

}  // namespace cohort
