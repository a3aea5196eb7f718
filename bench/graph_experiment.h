#pragma once

// One slow upstream behind a page of five calls: C needs A; D needs B; E needs B and, if it is there, C. Requests come
// in waves. A becomes slower and slower until it times out, stays so, and recovers. Four ways to give the calls their
// threads, always as many in all: one pool for everything, a pool for each layer, a pool for each call, and one for
// each call sized by its demand.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/graph/graph.h"
#include "cohort/group/group_executor.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/manual_executor.h"

namespace cohort::bench {

using namespace std::chrono_literals;

enum class Way { kShared, kLayered, kEqual, kByDemand };
inline constexpr std::array<Way, 4> kWays = {Way::kShared, Way::kLayered, Way::kEqual, Way::kByDemand};
inline const char* name_of(Way way) {
  switch (way) {
    case Way::kShared: return "one pool";
    case Way::kLayered: return "a pool a layer";
    case Way::kEqual: return "groups of equal size";
    case Way::kByDemand: return "groups by demand";
  }
  return "";
}

struct Experiment {
  int requests = 20'000;
  std::uint32_t threads = 70;
  double per_second = 700;  // B has 20 of the threads by demand, and needs 14.
  Duration wave = 20ms;
  std::uint64_t seed = 1;
};

constexpr std::size_t kCalls = 5;
constexpr std::array<const char*, kCalls> kCallNames = {"A", "B", "C", "D", "E"};
constexpr std::array<Duration, kCalls> kLatency = {20ms, 20ms, 10ms, 10ms, 10ms};

/// What became of the page, request by request.
struct Answers {
  std::vector<std::array<bool, kCalls>> delivered;
  std::vector<Duration> duration;
  std::vector<Duration> begun;

  [[nodiscard]] int without_b_or_d() const {
    return static_cast<int>(std::ranges::count_if(delivered, [](const auto& each) { return !each[1] || !each[3]; }));
  }
};

/// How long a call of A takes at that time: the trouble is from a sixth to five sixths of the whole.
inline Duration latency_of_a(Duration at, Duration whole) {
  const double part = static_cast<double>(at.count()) / static_cast<double>(whole.count());
  const auto between = [&](double from, double to) { return std::clamp((part - from) / (to - from), 0.0, 1.0); };
  const double trouble = std::min(between(1.0 / 6, 2.0 / 6), 1 - between(4.0 / 6, 5.0 / 6));
  return Duration(static_cast<std::int64_t>(static_cast<double>(kLatency[0].count()) * (1 + 19 * trouble)));
}

struct PageRequest {
  std::array<Duration, kCalls> latency{};
};

inline PageRequest random_request(Random& random, Duration at, Duration whole) {
  PageRequest request;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Duration mean = i == 0 ? latency_of_a(at, whole) : kLatency[i];
    request.latency[i] = Duration(static_cast<std::int64_t>(static_cast<double>(mean.count()) * (0.5 + random.unit())));
  }
  return request;
}

/// The page as a graph; `Call` makes the body of call i out of it.
template <class Call>
class PageGraph {
 public:
  PageGraph(Executor& executor, Way way, const Experiment& experiment, Call call) {
    GraphBuilder<PageRequest> page;
    auto a = page.node(
        "A", [call](NodeContext& context, const PageRequest& request) { return call(context, request.latency[0]); });
    auto b = page.node(
        "B", [call](NodeContext& context, const PageRequest& request) { return call(context, request.latency[1]); });
    auto c = page.node(
        "C",
        [call](NodeContext& context, const PageRequest& request, const int&) {
          return call(context, request.latency[2]);
        },
        a);
    auto d = page.node(
        "D",
        [call](NodeContext& context, const PageRequest& request, const int&) {
          return call(context, request.latency[3]);
        },
        b);
    auto e = page.node(
        "E",
        [call](NodeContext& context, const PageRequest& request, const int&, const int*) {
          return call(context, request.latency[4]);
        },
        b, optional(c));
    nodes_ = {a, b, c, d, e};
    const std::array<std::size_t, kCalls> layer = {0, 0, 1, 1, 2};
    for (std::size_t i = 0; i < kCalls; ++i) {
      nodes_[i].timeout(10 * kLatency[i]).output();
      switch (way) {
        case Way::kShared: nodes_[i].group("pool").concurrency(experiment.threads); break;
        case Way::kLayered:
          nodes_[i]
              .group("layer " + std::to_string(layer[i]))
              .concurrency(experiment.threads / 3 + (layer[i] == 2 ? experiment.threads % 3 : 0));
          break;
        case Way::kEqual: nodes_[i].concurrency(experiment.threads / kCalls); break;
        case Way::kByDemand: nodes_[i].demand(kLatency[i], experiment.per_second); break;
      }
    }
    graph_ = std::make_unique<Graph<PageRequest>>(
        std::move(*page.build(executor, {.name = "page", .timeout = 10s, .concurrency = experiment.threads})));
  }

  TaskHandle<GraphRun> start(PageRequest request) { return graph_->start(std::move(request)); }
  void collect(const GraphRun& run, Duration begun, Answers& answers) const {
    std::array<bool, kCalls> delivered{};
    for (std::size_t i = 0; i < kCalls; ++i) delivered[i] = run.outcome(nodes_[i]) == Outcome::kOk;
    answers.delivered.push_back(delivered);
    answers.duration.push_back(run.duration());
    answers.begun.push_back(begun);
  }
  [[nodiscard]] const Graph<PageRequest>& graph() const { return *graph_; }

 private:
  std::vector<GraphNode<PageRequest, int>> nodes_;
  std::unique_ptr<Graph<PageRequest>> graph_;
};

/// Calls `wave(at, count)` for each wave, `pass(duration)` between them.
template <class Wave, class Pass>
void in_waves(const Experiment& experiment, Random& random, Wave wave, Pass pass) {
  const double mean = experiment.per_second * std::chrono::duration<double>(experiment.wave).count();
  Duration at{0};
  for (int sent = 0; sent < experiment.requests;) {
    const int count = std::min(experiment.requests - sent, static_cast<int>(mean * (0.5 + random.unit()) + 0.5));
    wave(at, count);
    sent += count;
    pass(experiment.wave);
    at += experiment.wave;
  }
}

inline Duration length_of(const Experiment& experiment) {
  return Duration(static_cast<std::int64_t>(1e9 * experiment.requests / experiment.per_second));
}

inline Answers in_virtual_time(Way way, const Experiment& experiment) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  // A client that gives up when its time is over.
  const auto call = [&clock](NodeContext& context, Duration latency) -> Task<Result<int>> {
    const Duration left = context.deadline - clock.now();
    co_await sleep_for(std::min(latency, left));
    if (latency > left) co_return Error{ErrorCode::kTimedOut, "no answer"};
    co_return 1;
  };
  PageGraph page(executor, way, experiment, call);
  Random random(experiment.seed);
  std::vector<std::pair<Duration, TaskHandle<GraphRun>>> runs;
  in_waves(
      experiment, random,
      [&](Duration at, int count) {
        for (int i = 0; i < count; ++i) {
          runs.emplace_back(at, page.start(random_request(random, at, length_of(experiment))));
        }
      },
      [&](Duration duration) { executor.advance(duration); });
  Answers answers;
  for (auto& [at, run] : runs) page.collect(*run.await().value, at, answers);
  executor.run_until_idle();
  return answers;
}

/// With threads that block, as they would in a client library that does.
inline Answers in_real_time(Way way, const Experiment& experiment) {
  GroupExecutor executor;
  const auto call = [](NodeContext& context, Duration latency) -> Result<int> {
    const Duration left = context.deadline - system_clock().now();
    std::this_thread::sleep_for(std::min(latency, left));
    if (latency > left) return Error{ErrorCode::kTimedOut, "no answer"};
    return 1;
  };
  PageGraph page(executor, way, experiment, call);
  Random random(experiment.seed);
  std::vector<std::pair<Duration, TaskHandle<GraphRun>>> runs;
  const Time start = system_clock().now();
  in_waves(
      experiment, random,
      [&](Duration at, int count) {
        std::this_thread::sleep_until(start + at);
        for (int i = 0; i < count; ++i) {
          runs.emplace_back(at, page.start(random_request(random, at, length_of(experiment))));
        }
      },
      [](Duration) {});
  Answers answers;
  for (auto& [at, run] : runs) page.collect(*run.await().value, at, answers);
  return answers;
}

}  // namespace cohort::bench
