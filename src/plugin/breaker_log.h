#pragma once

#include <string>

#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "cohort/provider/router.h"

namespace cohort {

/// Logs each change of a breaker of this router.
inline void log_breakers(Router& router, const std::string& pool) {
  router.on_event([pool](const ProviderEvent& event) {
    if (event.from == event.to) return;
    const bool opens = event.to == BreakerState::kOpen && !event.shadow;
    const std::string duration = opens ? format_duration(event.open_duration) : "";
    const std::string message = (event.shadow ? "the shadow breaker of a provider, which refuses nothing, is "
                                              : "the breaker of a provider is ") +
                                std::string(to_string(event.to));
    if (opens) {
      COHORT_LOG(kWarning, "provider", message, {"pool", pool}, {"provider", event.provider}, {"reason", event.reason},
                 {"for", duration});
    } else {
      COHORT_LOG(kInfo, "provider", message, {"pool", pool}, {"provider", event.provider}, {"reason", event.reason});
    }
  });
}

}  // namespace cohort
