// A product page of ten calls that depend on one another. One upstream is slow today and one is broken: the page comes
// all the same, on time, with what there is.

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"

using namespace std::chrono_literals;
using cohort::optional;

namespace {

struct PageRequest {
  std::string product;
  bool member = false;
};
struct Product {
  std::string name;
  int price = 0;
};
struct Offer {
  int price = 0;
};

// Stands for a call over the network.
template <class T>
T answer_after(cohort::Duration latency, T value) {
  std::this_thread::sleep_for(latency);
  return value;
}

}  // namespace

int main() {
  cohort::GroupExecutor executor;
  cohort::GraphBuilder<PageRequest> page;

  auto product = page.node("product", [](const PageRequest& r) { return answer_after(3ms, Product{r.product, 100}); });
  auto stock = page.node(
      "stock", [](const Product&) { return answer_after(2ms, 7); }, product);
  auto reviews = page.node(
                         "reviews", [](const Product&) { return answer_after(80ms, 321); }, product)
                     .timeout(20ms);
  auto rating = page.node(
      "rating", [](const int& count) { return "of " + std::to_string(count) + " reviews"; }, reviews);
  auto user = page.node("user", [] { return answer_after(2ms, std::string("Alice")); }).when([](const auto& run) {
    return run.request().member;
  });
  auto discount = page.node(
                          "discount",
                          [](const std::string&) -> cohort::Result<int> {
                            return cohort::Error{cohort::ErrorCode::kUnavailable, "the discount service is down"};
                          },
                          user)
                      .retry({.max_retries = 1, .backoff = 1ms})
                      .otherwise(0);
  auto offer = page.node(
      "offer",
      [](const Product& p, const int* percent) {
        return Offer{p.price - (percent == nullptr ? 0 : p.price * *percent / 100)};
      },
      product, optional(discount));
  auto related = page.node(
                         "related", [](const Product&) { return answer_after(3ms, 4); }, product)
                     .otherwise(0);
  auto header = page.node(
                        "header", [](const std::string* name) { return name == nullptr ? "Hello" : "Hello " + *name; },
                        optional(user))
                    .output();
  auto body = page.node(
                      "body",
                      [](const Product& p, const int& left, const Offer& o, const std::string* text, const int& more) {
                        return p.name + " for " + std::to_string(o.price) + ", " + std::to_string(left) + " left, " +
                               (text == nullptr ? "no reviews now" : *text) + ", " + std::to_string(more) + " like it";
                      },
                      product, stock, offer, optional(rating), related)
                  .output();

  auto graph = page.build(executor, {.name = "product page", .timeout = 2s, .node_timeout = 1s});
  if (!graph) {
    std::printf("%s\n", graph.error().message.c_str());
    return 1;
  }
  for (const auto& layer : graph->layers()) {
    for (const std::string& name : layer) std::printf("%s ", name.c_str());
    std::printf("\n");
  }

  const cohort::GraphRun run = graph->run({.product = "Lamp", .member = true});
  std::printf("\n%s\n%s\n\n", run[header].c_str(), run[body].c_str());
  for (const cohort::NodeReport& report : run.reports()) {
    std::printf("%-9s %-15s %6.1f ms %s %s\n", report.name.c_str(), std::string(to_string(report.outcome)).c_str(),
                std::chrono::duration<double, std::milli>(report.ran).count(), report.on_critical_path ? "*" : " ",
                report.error.message.c_str());
  }
  std::printf("\n%s", graph->to_dot(run).c_str());
  return run.complete() ? 0 : 1;
}
