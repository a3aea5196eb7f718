// A gateway in front of three services that stream their answers: two near ones, and a dear one that is called only
// when no near one may be. One near service hangs, then the key of the other one expires: every prompt is answered.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "local_server.h"

using namespace std::chrono_literals;

namespace {

struct Upstream {
  std::string url;
  std::string key;
};

/// Sends the prompt to one service after the other until one of them begins to answer.
cohort::Streamed complete(cohort::Router& router, cohort::HttpClient& client, const std::vector<Upstream>& upstreams,
                          const std::string& prompt, std::string& text) {
  return router.call_stream<std::string>(
      [&](const cohort::Attempt& attempt, const auto& emit) -> std::variant<std::monostate, cohort::Failure> {
        const Upstream& upstream = upstreams[attempt.index];
        cohort::HttpAnswer got = cohort::require_success(client.stream(
            cohort::HttpRequest("POST", upstream.url + "/v1/complete")
                .with_header("Authorization", "Bearer " + upstream.key)
                .with_body(prompt)
                .with_stop(attempt.stop),
            [&](std::string_view piece) { return emit(std::string(piece)); }, attempt.first_chunk_deadline));
        if (auto* const failure = std::get_if<cohort::Failure>(&got)) return std::move(*failure);
        return std::monostate();
      },
      [&](const std::string& piece) {
        text += piece;
        return true;
      });
}

}  // namespace

int main() {
  std::atomic<bool> hangs = false;
  std::atomic<bool> expired = false;
  LocalServer near_1([&]() -> LocalServer::Answer {
    while (hangs) std::this_thread::sleep_for(1ms);
    return {.body = "near-1 says hello"};
  });
  LocalServer near_2([&]() -> LocalServer::Answer {
    if (expired) return {.status = 401, .body = "this key has expired"};
    return {.body = "near-2 says hello"};
  });
  LocalServer dear([]() -> LocalServer::Answer { return {.body = "dear says hello"}; });
  const std::vector<Upstream> upstreams = {
      {near_1.url(), "key-of-near-1"}, {near_2.url(), "key-of-near-2"}, {dear.url(), "key-of-dear"}};

  const std::vector<cohort::ProviderOptions> providers = {
      {.name = "near-1"}, {.name = "near-2"}, {.name = "dear", .tier = 1}};
  const auto router =
      cohort::Router::make(providers, {.timeout = 30s, .first_chunk_timeout = 100ms, .auth_is_failure = true});
  const auto client = cohort::HttpClient::make();
  if (!router || !client) return 1;
  (*router)->on_event([](const cohort::ProviderEvent& event) {
    std::printf("  %s is %s (%s)\n", event.provider.c_str(), std::string(to_string(event.to)).c_str(),
                std::string(event.reason).c_str());
  });

  int failed = 0;
  const auto send = [&](int prompts) {
    std::map<std::string, int> answers;
    for (int i = 0; i < prompts; ++i) {
      std::string text;
      const cohort::Streamed answer = complete(**router, **client, upstreams, "Say hello.", text);
      if (answer.result) {
        ++answers[text];
      } else {
        ++failed;
        std::printf("  %s\n", answer.result.error().message.c_str());
      }
    }
    for (const auto& [text, times] : answers) std::printf("  %3d x %s\n", times, text.c_str());
  };

  std::puts("both near services are well:");
  send(20);
  hangs = true;
  std::puts("near-1 hangs:");
  send(20);
  expired = true;
  std::puts("the key of near-2 expires as well:");
  send(20);
  hangs = false;
  for (const cohort::ProviderStats& stats : (*router)->stats()) {
    std::printf("%-6s tier %u, %s\n", stats.name.c_str(), stats.tier,
                std::string(to_string(stats.breaker.state)).c_str());
  }
  return failed == 0 ? 0 : 1;
}
