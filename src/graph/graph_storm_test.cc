// Random graphs with random outcomes, time-outs, retries and cancels in virtual time, against a simple model of what
// should become of each node, and when. A failure prints its seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cohort/base/random.h"
#include "cohort/graph/graph.h"
#include "cohort/task/sleep.h"
#include "cohort/testing/manual_executor.h"
#include "graph/graph_engine_parts.h"
#include "testing/seed_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr Duration kNever = Duration::max();

// What a node will do.
struct Plan {
  std::vector<std::pair<std::size_t, bool>> inputs;  // Which, and whether it is optional.
  Duration latency{0};
  int failures = 0;        // So many attempts fail first,
  bool permanent = false;  // in a way that no retry mends.
  std::uint32_t retries = 0;
  Duration backoff{0};
  Duration timeout{0};
  bool fallback = false;
  bool wanted = true;
  bool output = false;
};

struct Scenario {
  std::vector<Plan> nodes;
  Duration timeout{0};
  std::optional<Duration> cancel_at;
};

Scenario random_scenario(Random& random) {
  const auto some = [&](std::uint64_t most) { return 1 + random.below(most); };
  // Odd nanoseconds, so that no two things happen at the same time.
  const auto odd = [&](std::uint64_t most_ms) {
    return Duration(static_cast<std::int64_t>(some(most_ms * 1'000'000)));
  };
  Scenario scenario;
  scenario.nodes.resize(some(10));
  for (std::size_t i = 0; i < scenario.nodes.size(); ++i) {
    Plan& node = scenario.nodes[i];
    std::set<std::size_t> chosen;
    for (std::uint64_t k = i == 0 ? 0 : random.below(4); k > 0; --k) chosen.insert(random.below(i));
    for (const std::size_t input : chosen) node.inputs.emplace_back(input, random.chance(0.3));
    node.latency = odd(40);
    node.failures = random.chance(0.35) ? static_cast<int>(some(3)) : 0;
    node.permanent = random.chance(0.3);
    node.retries = random.chance(0.4) ? static_cast<std::uint32_t>(some(3)) : 0;
    node.backoff = odd(10);
    node.timeout = random.chance(0.3) ? odd(50) : 10s;
    node.fallback = random.chance(0.25);
    node.wanted = !random.chance(0.08);
    node.output = random.chance(0.3);
  }
  for (std::size_t i = 0; i < scenario.nodes.size(); ++i) {
    const auto consumes = [&](const Plan& other) {
      return std::ranges::any_of(other.inputs, [&](const auto& input) { return input.first == i; });
    };
    if (std::ranges::none_of(scenario.nodes, consumes)) scenario.nodes[i].output = true;
  }
  scenario.timeout = random.chance(0.3) ? odd(120) : 10s;
  if (random.chance(0.15)) scenario.cancel_at = odd(100);
  return scenario;
}

// What becomes of a node.
struct Fate {
  Outcome outcome = Outcome::kOk;
  bool has_value = true;
  Duration ready = kNever;  // kNever: it never could start.
  Duration end{0};
  int attempts = 0;
  bool either = false;  // In the moment when it ended by itself nobody needed it any more: cancelled is right too.
};

class Model {
 public:
  explicit Model(const Scenario& scenario) : scenario_(scenario), fates_(scenario.nodes.size()) {
    for (std::size_t i = 0; i < fates_.size(); ++i) forward(i);
    if (scenario_.cancel_at) cancel(*scenario_.cancel_at);
    for (std::size_t i = fates_.size(); i-- > 0;) drop_if_unneeded(i);
  }
  [[nodiscard]] const std::vector<Fate>& fates() const { return fates_; }

 private:
  void forward(std::size_t i) {
    const Plan& node = scenario_.nodes[i];
    Fate& fate = fates_[i];
    Duration ready{0};
    Duration failed = kNever;
    bool skipped = false;
    for (const auto& [input, optional] : node.inputs) {
      const Fate& of = fates_[input];
      ready = std::max(ready, of.end);
      if (of.has_value || optional || of.end >= failed) continue;
      failed = of.end;
      skipped = of.outcome == Outcome::kSkipped;
    }
    if (failed != kNever) {
      end(i, skipped ? Outcome::kSkipped : Outcome::kUpstreamFailed, failed);
    } else if (!node.wanted) {
      fate.ready = ready;
      end(i, Outcome::kSkipped, ready);
    } else {
      fate.ready = ready;
      attempt(i, ready);
    }
  }

  void attempt(std::size_t i, Duration ready) {
    const Plan& node = scenario_.nodes[i];
    const Duration deadline = std::min(ready + node.timeout, scenario_.timeout);
    if (ready >= deadline) return end(i, Outcome::kTimedOut, ready);
    Duration at = ready;
    Duration wait = node.backoff;
    for (int number = 1;; ++number) {
      fates_[i].attempts = number;
      at += node.latency;
      if (at > deadline) return end(i, Outcome::kTimedOut, deadline);
      if (number > node.failures) return end(i, Outcome::kOk, at);
      const bool again = !node.permanent && number <= static_cast<int>(node.retries) && at + wait < deadline;
      if (!again) return end(i, Outcome::kFailed, at);
      at += wait;
      wait *= 2;
    }
  }

  void end(std::size_t i, Outcome outcome, Duration at) {
    Fate& fate = fates_[i];
    fate.end = at;
    fate.outcome = outcome;
    fate.has_value = outcome == Outcome::kOk || scenario_.nodes[i].fallback;
    if (outcome != Outcome::kOk && outcome != Outcome::kSkipped && fate.has_value) fate.outcome = Outcome::kFallback;
  }

  // A node that waits for something open is open itself; what ends before has ended as it would.
  void cancel(Duration at) {
    for (Fate& fate : fates_) {
      if (fate.end <= at) continue;
      if (fate.ready > at) fate.ready = kNever;
      fate.outcome = Outcome::kCancelled;
      fate.has_value = false;
      fate.end = at;
    }
  }

  void drop_if_unneeded(std::size_t i) {
    if (scenario_.nodes[i].output) return;
    Duration unneeded{0};
    for (std::size_t k = i + 1; k < fates_.size(); ++k) {
      const auto& inputs = scenario_.nodes[k].inputs;
      if (std::ranges::none_of(inputs, [&](const auto& input) { return input.first == i; })) continue;
      if (fates_[k].ready != kNever) return;  // It came to run, so it had all its inputs.
      unneeded = std::max(unneeded, fates_[k].end);
    }
    Fate& fate = fates_[i];
    fate.either = fate.end == unneeded;
    if (fate.end < unneeded) return;
    if (fate.ready >= unneeded) fate.ready = kNever;
    if (fate.either) return;
    fate.end = unneeded;
    fate.outcome = Outcome::kCancelled;
    fate.has_value = false;
  }

  const Scenario& scenario_;
  std::vector<Fate> fates_;
};

// Of two inputs that are missing from the same moment on, one skipped and one failed, either may be the reason.
bool same(Outcome outcome, const Fate& fate) {
  const auto is_missing = [](Outcome each) {
    return each == Outcome::kSkipped || each == Outcome::kUpstreamFailed || each == Outcome::kFallback;
  };
  return outcome == fate.outcome || (fate.ready == kNever && is_missing(outcome) && is_missing(fate.outcome));
}

// Whose bodies they are.
enum class Style {
  kCoroutines,
  kPlain,  // And some of those that take no time are lightweight.
};

using MakeEngine = std::shared_ptr<internal::GraphEngine>(std::shared_ptr<const internal::GraphPlan>, Executor&,
                                                          GraphOptions);

// Runs a scenario for real; says what is wrong.
std::string play(const Scenario& scenario, std::uint64_t seed, Style style = Style::kCoroutines,
                 MakeEngine& make_engine = internal::make_graph_engine) {
  Random random(seed);
  VirtualClock clock;
  ManualExecutor executor(clock, {.threads = 50});  // Nobody is to wait for a thread.
  static_cast<void>(executor.set_limits("helper", {.max_concurrency = 50}));
  GraphBuilder<int> builder;
  std::vector<GraphNode<int, int>> nodes;
  std::vector<int> begun(scenario.nodes.size(), 0);
  for (std::size_t i = 0; i < scenario.nodes.size(); ++i) {
    nodes.push_back(builder.declare<int>("n" + std::to_string(i)));
  }
  for (std::size_t i = 0; i < scenario.nodes.size(); ++i) {
    const Plan& plan = scenario.nodes[i];
    const auto outcome = [&plan, i](int number) -> Result<int> {
      if (number > plan.failures) return static_cast<int>(i);
      return Error{plan.permanent ? ErrorCode::kInvalid : ErrorCode::kUnavailable, "as planned"};
    };
    const auto coroutine = [&plan, &begun, outcome, i]() -> Task<Result<int>> {
      const int number = ++begun[i];
      co_await sleep_for(plan.latency);
      co_return outcome(number);
    };
    const bool awaits = random.chance(0.3);
    const auto plain = [&, awaits, outcome, i]() -> Result<int> {
      const int number = ++begun[i];
      if (plan.latency == Duration::zero()) return outcome(number);
      if (awaits) {
        static_cast<void>(executor.submit("helper", "", [&] { executor.spend(plan.latency); }).await());
      } else {
        executor.spend(plan.latency);
      }
      return outcome(number);
    };
    const auto define = [&](auto body) {
      const auto in = [&](std::size_t k) { return nodes[plan.inputs[k].first]; };
      const auto is_optional = [&](std::size_t k) { return plan.inputs[k].second; };
      // Required and optional inputs are of different types: up to three of both.
      switch (plan.inputs.size()) {
        case 0: builder.define(nodes[i], body); break;
        case 1:
          if (is_optional(0)) {
            builder.define(
                nodes[i], [body](const int*) { return body(); }, optional(in(0)));
          } else {
            builder.define(
                nodes[i], [body](const int&) { return body(); }, in(0));
          }
          break;
        default: {
          // The first two as they are; a third one always optional (the model is told below).
          const auto rest = [&](auto first) {
            const auto both = [&](auto second) {
              if (plan.inputs.size() == 2) {
                builder.define(
                    nodes[i], [body](const auto&...) { return body(); }, first, second);
              } else {
                builder.define(
                    nodes[i], [body](const auto&...) { return body(); }, first, second, optional(in(2)));
              }
            };
            if (is_optional(1)) {
              both(optional(in(1)));
            } else {
              both(in(1));
            }
          };
          if (is_optional(0)) {
            rest(optional(in(0)));
          } else {
            rest(in(0));
          }
        }
      }
    };
    if (style == Style::kPlain) {
      define(plain);
      if (plan.latency == Duration::zero() && random.chance(0.7)) nodes[i].lightweight();
    } else {
      define(coroutine);
    }
    nodes[i]
        .timeout(plan.timeout)
        .retry({.max_retries = plan.retries, .backoff = plan.backoff, .max_backoff = 1h, .jitter = 0})
        .concurrency(100);
    if (plan.fallback) nodes[i].otherwise(-1);
    if (!plan.wanted) nodes[i].when([](const RunView<int>&) { return false; });
    if (plan.output) nodes[i].output();
  }
  const GraphOptions options{.timeout = scenario.timeout, .seed = seed};
  auto plan = builder.plan_for(options);
  if (!plan) return plan.error().message;
  Graph<int> graph(make_engine(std::move(*plan), executor, options));
  const Model model(scenario);

  const TaskHandle<GraphRun> handle = graph.start(1);
  if (scenario.cancel_at) {
    executor.advance(*scenario.cancel_at);
    handle.cancel();
  }
  const GraphRun run = *handle.await().value;
  std::string wrong;
  const auto reports = run.reports();
  for (std::size_t i = 0; i < reports.size() && wrong.empty(); ++i) {
    const Fate& fate = model.fates()[i];
    const std::string who = reports[i].name;
    const Duration end = reports[i].ready + reports[i].queued + reports[i].ran;
    if (fate.either && end == fate.end && reports[i].outcome == Outcome::kCancelled) continue;
    if (!same(reports[i].outcome, fate)) {
      wrong =
          who + " is " + std::string(to_string(reports[i].outcome)) + ", not " + std::string(to_string(fate.outcome));
    } else if (end != fate.end) {
      wrong = who + " ended at " + std::to_string(end.count()) + ", not " + std::to_string(fate.end.count());
    } else if ((run.find(nodes[i]) != nullptr) != fate.has_value) {
      wrong = who + " has a value where it should have none, or the other way round";
    } else if (fate.outcome != Outcome::kCancelled && begun[i] != fate.attempts) {
      wrong = who + " was begun " + std::to_string(begun[i]) + " times, not " + std::to_string(fate.attempts);
    } else if (fate.outcome != Outcome::kCancelled) {
      const auto group = executor.group_stats(who);
      if (group && group->running != 0) wrong = who + " has ended and kept its permit";
    }
  }
  executor.run_until_idle();
  if (wrong.empty()) wrong = executor.leaks();
  return wrong;
}

Scenario scenario_of(std::uint64_t seed) {
  Random random(seed);
  Scenario scenario = random_scenario(random);
  for (Plan& node : scenario.nodes) {
    if (node.inputs.size() == 3) node.inputs[2].second = true;
  }
  return scenario;
}

TEST(GraphStormTest, DoesWhatItsModelDoes) {
  const Seeds seeds(1500);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(play(scenario_of(seed), seed), "") << "replay with ./dev sim " << seed;
  }
}

// Many of its nodes take no time.
Scenario quick_scenario_of(std::uint64_t seed) {
  Scenario scenario = scenario_of(seed);
  Random random(seed + 1);
  const double quick = random.unit();
  for (Plan& node : scenario.nodes) {
    if (random.chance(quick)) node.latency = Duration::zero();
  }
  return scenario;
}

TEST(GraphStormTest, LightweightNodesDoWhatTheModelDoes) {
  const Seeds seeds(1500);
  for (std::uint64_t seed = seeds.first(); seed <= seeds.last(); ++seed) {
    ASSERT_EQ(play(quick_scenario_of(seed), seed, Style::kPlain), "") << "replay with ./dev sim " << seed;
  }
}

// A test that cannot fail proves nothing.
struct PlantedBugs {
  static inline bool kStartTwice = false;
  static inline bool kRequireOptional = false;
  static inline bool kKeepPermitAfterTimeout = false;
};

std::shared_ptr<internal::GraphEngine> make_engine_with_bugs(std::shared_ptr<const internal::GraphPlan> plan,
                                                             Executor& executor, GraphOptions options) {
  return std::make_shared<internal::BasicGraphEngine<PlantedBugs>>(std::move(plan), executor, std::move(options));
}

struct PlantedBug {
  const char* name;
  bool* planted;
};
void PrintTo(const PlantedBug& bug, std::ostream* out) { *out << bug.name; }

class PlantedGraphBugTest : public ::testing::TestWithParam<PlantedBug> {
 protected:
  void SetUp() override { *GetParam().planted = true; }
  void TearDown() override { *GetParam().planted = false; }
};
INSTANTIATE_TEST_SUITE_P(Planted, PlantedGraphBugTest,
                         ::testing::Values(PlantedBug{"StartTwice", &PlantedBugs::kStartTwice},
                                           PlantedBug{"RequireOptional", &PlantedBugs::kRequireOptional},
                                           PlantedBug{"KeepPermitAfterTimeout", &PlantedBugs::kKeepPermitAfterTimeout}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_P(PlantedGraphBugTest, IsFound) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::string broken = play(scenario_of(seed), seed, Style::kCoroutines, make_engine_with_bugs);
    if (broken.empty()) broken = play(quick_scenario_of(seed), seed, Style::kPlain, make_engine_with_bugs);
    if (broken.empty()) continue;
    std::cout << "seed " << seed << ": " << broken << "\n";
    return;
  }
  FAIL() << "200 graphs did not find it";
}

}  // namespace
}  // namespace cohort
