// Three real HTTP servers on loopback, of which one breaks, one complains of too much, and one is well. A router with
// the HTTP client in front of them: every page comes, and the servers in trouble are left alone.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "cohort/provider/http/http_client.h"
#include "cohort/provider/router.h"
#include "local_server.h"

using namespace std::chrono_literals;

int main() {
  std::atomic<bool> east_is_broken = false;
  LocalServer east([&]() -> LocalServer::Answer {
    if (east_is_broken) return {.status = 500, .body = "out of memory"};
    return {.body = "page from east"};
  });
  LocalServer west([served = 0]() mutable -> LocalServer::Answer {
    if (++served > 20) return {.status = 429, .body = "slow down", .headers = "Retry-After: 30\r\n"};
    return {.body = "page from west"};
  });
  LocalServer backup([]() -> LocalServer::Answer { return {.body = "page from backup"}; });
  const std::map<std::string, std::string, std::less<>> urls = {
      {"east", east.url()}, {"west", west.url()}, {"backup", backup.url()}};

  auto client = cohort::HttpClient::make({.timeout = 2s});
  auto router = cohort::Router::make({{.name = "east"}, {.name = "west"}, {.name = "backup"}}, {.timeout = 2s});
  if (!client || !router) return 1;
  (*router)->on_event([](const cohort::ProviderEvent& event) {
    std::printf("  %s: %s -> %s (%s)\n", event.provider.c_str(), std::string(to_string(event.from)).c_str(),
                std::string(to_string(event.to)).c_str(), std::string(event.reason).c_str());
  });

  const auto fetch = [&](const cohort::Attempt& attempt) {
    const std::string url = urls.find(attempt.provider)->second + "/page";
    return cohort::require_success((*client)->fetch(cohort::HttpRequest(url).with_deadline(attempt.deadline)));
  };
  const auto fetch_pages = [&](int count) {
    std::map<std::string, int> pages;
    int failed = 0;
    int tries = 0;
    for (int i = 0; i < count; ++i) {
      const auto page = (*router)->call(fetch);
      tries += static_cast<int>(page.tries.size());
      if (page.result) {
        ++pages[page.result->body];
      } else {
        ++failed;
        std::printf("  %s\n", page.result.error().message.c_str());
      }
    }
    for (const auto& [text, times] : pages) std::printf("  %3d x %s\n", times, text.c_str());
    std::printf("  %d tries, %d without a page\n", tries, failed);
    return failed;
  };

  std::puts("all three work, until west has had enough:");
  int failed = fetch_pages(100);
  east_is_broken = true;
  std::puts("east breaks:");
  failed += fetch_pages(100);
  for (const cohort::ProviderStats& stats : (*router)->stats()) {
    std::printf("%-6s %s, p99 %.1f ms\n", stats.name.c_str(), std::string(to_string(stats.breaker.state)).c_str(),
                std::chrono::duration<double, std::milli>(stats.p99).count());
  }
  return failed == 0 ? 0 : 1;
}
