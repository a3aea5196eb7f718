// Three providers of the same thing: one becomes slow, one refuses for a while. The router notices, asks the others,
// and comes back when they do. In virtual time, so a minute passes in no time.

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <variant>

#include "cohort/provider/router.h"
#include "cohort/testing/virtual_clock.h"

using namespace std::chrono_literals;

namespace {

// What the providers do at a time: east takes too long from second 10 to 30, west refuses from 20 to 40.
std::variant<std::string, cohort::Failure> ask(const cohort::Attempt& attempt, cohort::VirtualClock& clock,
                                               cohort::Duration at) {
  if (attempt.provider == "east" && at >= 10s && at < 30s) {
    clock.set(attempt.deadline);
    return cohort::Failure{cohort::FailureType::kTimeout, {cohort::ErrorCode::kTimedOut, "no answer in time"}};
  }
  clock.advance(20ms);
  if (attempt.provider == "west" && at >= 20s && at < 40s) {
    return cohort::Failure{cohort::FailureType::kConnect, {cohort::ErrorCode::kUnavailable, "connection refused"}};
  }
  return "page from " + std::string(attempt.provider);
}

}  // namespace

int main() {
  cohort::VirtualClock clock;
  const cohort::Time start = clock.now();
  std::vector<cohort::ProviderOptions> providers;
  for (const char* name : {"east", "west", "backup"}) {
    cohort::ProviderOptions provider{.name = name};
    provider.breaker.slow_call_threshold = 200ms;
    provider.breaker.consecutive_failure_threshold = 2;
    providers.push_back(provider);
  }
  cohort::RouterOptions options;
  options.timeout = 500ms;
  options.clock = &clock;
  options.seed = 7;
  auto made = cohort::Router::make(providers, options);
  if (!made) {
    std::printf("%s\n", made.error().message.c_str());
    return 1;
  }
  cohort::Router& router = **made;
  for (std::size_t i = 0; i < router.size(); ++i) {
    router.provider(i).breaker().on_event([&router, i, start](const cohort::BreakerEvent& event) {
      std::printf("%5.1f s  %s: %s -> %s (%s)\n", std::chrono::duration<double>(event.at - start).count(),
                  router.provider(i).name().c_str(), std::string(to_string(event.from)).c_str(),
                  std::string(to_string(event.to)).c_str(), std::string(event.reason).c_str());
    });
  }

  std::map<std::string, int> answers;
  int failed = 0;
  while (clock.now() - start < 60s) {
    const auto page =
        router.call([&](const cohort::Attempt& attempt) { return ask(attempt, clock, clock.now() - start); });
    if (page.result) {
      ++answers[page.tries.back().provider];
    } else {
      ++failed;
    }
    clock.advance(30ms);
  }
  for (const auto& stats : router.stats()) {
    std::printf("%s: %d pages, p99 %.0f ms\n", stats.name.c_str(), answers[stats.name],
                std::chrono::duration<double, std::milli>(stats.p99).count());
  }
  std::printf("without a page: %d\n", failed);
}
