// Fifty calls that depend on one another, a line each. In virtual time, so that it takes none.

#include <chrono>
#include <cstdio>
#include <string>

#include "cohort/graph/graph.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/world.h"

using namespace std::chrono_literals;
using cohort::optional;

namespace {

struct Request {
  int id = 0;
};

// Stands for an upstream: takes its time and answers with the number of its inputs that were there.
auto call(cohort::Duration latency) {
  return [latency](const auto&... inputs) -> cohort::Task<int> {
    co_await cohort::sleep_for(latency);
    co_return static_cast<int>(sizeof...(inputs));
  };
}

}  // namespace

// clang-format off
int main() {
  cohort::World world;
  cohort::GraphBuilder<Request> page;
  auto account = page.node("account", call(5ms));
  auto session_ = page.node("session", call(4ms));
  auto geo = page.node("geo", call(3ms));
  auto locale = page.node("locale", call(2ms), geo);
  auto currency = page.node("currency", call(2ms), geo);
  auto experiments = page.node("experiments", call(4ms), account);
  auto flags = page.node("flags", call(2ms), account, geo);
  auto consent = page.node("consent", call(3ms), session_);
  auto device = page.node("device", call(2ms), session_);
  auto cart = page.node("cart", call(9ms), account);
  auto wishlist = page.node("wishlist", call(7ms), account);
  auto orders = page.node("orders", call(12ms), account);
  auto payments = page.node("payments", call(8ms), account);
  auto address = page.node("address", call(6ms), account, locale);
  auto loyalty = page.node("loyalty", call(9ms), account);
  auto catalog = page.node("catalog", call(8ms), locale, flags);
  auto prices = page.node("prices", call(7ms), catalog, currency);
  auto taxes = page.node("taxes", call(4ms), prices, geo);
  auto stock = page.node("stock", call(9ms), catalog, geo);
  auto images = page.node("images", call(5ms), catalog);
  auto videos = page.node("videos", call(9ms), catalog).timeout(10ms);
  auto texts = page.node("texts", call(4ms), catalog, locale);
  auto ratings = page.node("ratings", call(8ms), catalog).otherwise(0);
  auto reviews = page.node("reviews", call(11ms), ratings, locale);
  auto questions = page.node("questions", call(9ms), catalog, locale);
  auto similar = page.node("similar", call(9ms), catalog, optional(wishlist));
  auto bundles = page.node("bundles", call(6ms), catalog, optional(cart));
  auto promos = page.node("promos", call(7ms), prices, optional(loyalty));
  auto coupons = page.node("coupons", call(5ms), account, optional(promos));
  auto discounts = page.node("discounts", call(4ms), prices, optional(coupons));
  auto shipping = page.node("shipping", call(9ms), address, stock);
  auto pickup = page.node("pickup", call(7ms), geo, stock);
  auto returns = page.node("returns", call(3ms), locale, flags);
  auto warranty = page.node("warranty", call(4ms), catalog, geo);
  auto financing = page.node("financing", call(8ms), payments, prices).timeout(10ms);
  auto history = page.node("history", call(7ms), account, optional(orders));
  auto recommend = page.node("recommend", call(13ms), history, optional(similar)).timeout(10ms);
  auto trending = page.node("trending", call(6ms), geo, flags).otherwise(0);
  auto ads = page.node("ads", call(9ms), consent, optional(experiments)).timeout(10ms);
  auto banner = page.node("banner", call(3ms), locale, optional(ads));
  auto search = page.node("search", call(4ms), locale, flags);
  auto menu = page.node("menu", call(5ms), catalog, flags);
  auto header = page.node("header", call(3ms), menu, search, optional(cart));
  auto footer = page.node("footer", call(2ms), locale, optional(returns));
  auto gallery = page.node("gallery", call(3ms), images, optional(videos), device);
  auto offer = page.node("offer", call(3ms), discounts, taxes, optional(financing));
  auto delivery = page.node("delivery", call(2ms), optional(shipping), optional(pickup));
  auto social = page.node("social", call(3ms), optional(reviews), optional(questions));
  auto shelf = page.node("shelf", call(3ms), optional(recommend), optional(bundles), optional(trending));
  page.node("page", call(2ms), header, footer, gallery, texts, offer, delivery, social, shelf, optional(banner), optional(warranty)).output();

  auto graph = page.build(world.executor, {.name = "fifty"});
  if (!graph) return std::printf("%s\n", graph.error().message.c_str()), 1;
  const cohort::GraphRun run = graph->run({1});
  for (const cohort::NodeReport& report : run.reports()) {
    if (report.on_critical_path) std::printf("%-9s after %4.1f ms\n", report.name.c_str(), std::chrono::duration<double, std::milli>(report.ready + report.ran).count());
  }
  std::printf("%zu nodes in %zu layers, %.1f ms\n", run.reports().size(), graph->layers().size(), std::chrono::duration<double, std::milli>(run.duration()).count());
  return run.complete() ? 0 : 1;
}
