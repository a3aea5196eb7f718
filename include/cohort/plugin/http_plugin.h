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
  std::vector<std::string> urls = {};           ///< http:// or https://. A step's path is appended. 1 to 64.
  Duration timeout = std::chrono::seconds(10);  ///< Time-out of one try.
  std::uint32_t max_attempts = 3;               ///< Maximum tries of one call, each at another URL. 1 to 64.
  std::uint32_t max_concurrent = 50;            ///< Maximum calls of one URL at a time.
  BreakerOptions breaker{};                     ///< For the breaker of each URL.
  /// More expensive or more distant URLs, called only while none of `urls` may be called. `urls` and `backup_urls`
  /// together have at most 64 entries.
  std::vector<std::string> backup_urls = {};
  bool auth_is_failure = false;  ///< See RouterOptions.
  double panic_share = 1;        ///< See RouterOptions.
};

struct HttpPluginOptions {
  std::map<std::string, HttpPool> pools = {};  ///< The pools of the operator, by name. They may have private addresses.
  /// True: a URL in a task may lead to a private, loopback or link-local address. The plugin checks the address after
  /// it has looked up the name, so a host name cannot hide a private address.
  bool allow_private = false;
  bool allow_urls = true;                       ///< True: tasks may bring URLs.
  Duration timeout = std::chrono::seconds(10);  ///< Time-out of one call of a URL that a task brings.
  std::size_t max_response = 256U << 10U;       ///< Maximum size of an answer. 1 byte to 16 MiB.
};

/// The step "http": calls a pool of the operator, or a URL of the task.
///
///     {"plugin": "http", "parameters": {"pool": "billing", "path": "/charge/{payload.customer}"}}
///     {"plugin": "http", "parameters": {"url": "https://example.com/hook", "body": {"task": "{task_id}"}}}
///
/// The parameters are:
/// - "pool" with "path", or "url".
/// - "method". Default: POST.
/// - "headers": an object of strings. The plugin adds "Idempotency-Key" with the step's token.
/// - "body": any JSON. Default: an object with task_id, group, payload and context; none for GET and DELETE.
/// - "expect": a list of statuses that count as success, besides those below 300.
/// - "output": the key in the context for {"status", "body"}. Default: "response". "" merges the body of the answer.
///
/// The path, header values and texts in the body may contain `{task_id}`, `{group}`, `{token}`, `{parameters.NAME}`,
/// `{payload.NAME}` and `{context.NAME}`.
///
/// Each URL of a pool and each host of other URLs has its own circuit breaker. A pool fails over. 429 and 503 are tried
/// again at the time of Retry-After. Network errors, 5xx, 408 and 425 are tried again by the retry policy. Every other
/// answer fails the task. The plugin does not follow redirects.
///
/// kInvalid: an option is out of range, or a pool has no URL or an illegal URL.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_http_plugin(HttpPluginOptions options);

}  // namespace cohort
