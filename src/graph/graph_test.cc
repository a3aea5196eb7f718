#include "cohort/graph/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph_test_fixture.h"

namespace cohort {
namespace {

int sum(const int& a, const int& b) { return a + b; }

// ---- declaring

TEST_F(GraphTest, GivesNodesTheirInputs) {
  auto id = builder.node("id", [](const Page& page) { return page.id; });
  auto twice = builder.node(
      "twice", [](const Page& page, const int& x) { return page.id + x; }, id);
  auto text =
      builder
          .node(
              "text", [](const int& x, const int& y) { return std::to_string(x) + "," + std::to_string(y); }, id, twice)
          .output();
  const GraphRun run = build().run({21});
  EXPECT_TRUE(run.complete());
  EXPECT_EQ(run[text], "21,42");
  EXPECT_EQ(run.outcome(twice), Outcome::kOk);
  EXPECT_EQ(run.error(twice), nullptr);
}

TEST_F(GraphTest, ACallableMayReturnManyThings) {
  auto nothing = builder.node("nothing", [] {});
  auto result = builder.node("result", []() -> Result<int> { return 1; });
  auto variant = builder.node("variant", []() -> std::variant<int, Failure> { return 2; });
  auto task = builder.node("task", []() -> Task<int> { co_return 3; });
  auto task_result = builder.node("task_result", []() -> Task<Result<int>> { co_return 4; });
  auto task_void = builder.node("task_void", []() -> Task<> { co_return; });
  auto result_void = builder.node("result_void", []() -> Result<void> { return {}; });
  auto owned = builder.node("owned", [](const Page& page) { return std::make_unique<int>(page.id); }).output();
  auto all = builder
                 .node(
                     "all",
                     [](const std::monostate&, const int& a, const int& b, const int& c, const int& d,
                        const std::monostate&, const std::monostate&) { return a + b + c + d; },
                     nothing, result, variant, task, task_result, task_void, result_void)
                 .output();
  const GraphRun run = build().run({7});
  EXPECT_EQ(run[all], 10);
  EXPECT_EQ(*run[owned], 7);
}

TEST_F(GraphTest, AFailureIsToldWithItsReason) {
  auto error = builder.node("error",
                            []() -> Result<int> {
                              return Error{ErrorCode::kNotFound, "no such page"};
                            })
                   .output();
  auto thrown = builder.node("thrown", []() -> int { throw std::runtime_error("oops"); }).output();
  auto failure = builder
                     .node("failure",
                           []() -> std::variant<int, Failure> {
                             return Failure{FailureType::kHttp5xx, {ErrorCode::kUnavailable, "500"}};
                           })
                     .output();
  auto late = builder
                  .node("late",
                        []() -> Task<int> {
                          throw std::runtime_error("later");
                          co_return 1;
                        })
                  .output();
  const GraphRun run = build().run({});
  EXPECT_FALSE(run.complete());
  EXPECT_EQ(run.find(error), nullptr);
  EXPECT_EQ(run.error(error)->message, "no such page");
  EXPECT_EQ(run.error(thrown)->message, "oops");
  EXPECT_EQ(run.error(failure)->message, "500");
  EXPECT_EQ(run.error(late)->message, "later");
  EXPECT_EQ(run.outcome(late), Outcome::kFailed);
}

TEST_F(GraphTest, WhatCannotBeRunIsRefusedWithNames) {
  builder.node("a", [] { return 1; }).output();
  builder.node("a", [] { return 2; }).output();
  EXPECT_EQ(refusal(), "there are two nodes of the name 'a'");

  builder.node("lonely", [] { return 1; });
  EXPECT_EQ(refusal(),
            "the result of node 'lonely' is neither consumed nor an output; mark it with output(), or leave it out");

  auto later = builder.declare<int>("later");
  builder
      .node(
          "needs", [](const int& x) { return x; }, later)
      .output();
  EXPECT_EQ(refusal(), "node 'needs' needs 'later', which is declared but never defined");

  auto c = builder.declare<int>("c");
  auto a = builder.node(
      "a", [](const int& x) { return x; }, c);
  auto b = builder.node(
      "b", [](const int& x) { return x; }, a);
  builder
      .define(
          c, [](const int& x) { return x; }, b)
      .output();
  EXPECT_EQ(refusal(), "a cycle: 'c' -> 'a' -> 'b' -> 'c'");

  GraphBuilder<Page> other;
  auto foreign = other.node("foreign", [] { return 1; });
  builder
      .node(
          "x", [](const int& value) { return value; }, foreign)
      .output();
  EXPECT_EQ(refusal(), "node 'x' takes an input that was not declared in this graph");

  auto twice = builder.node("twice", [] { return 1; }).output();
  builder.define(twice, [] { return 2; });
  EXPECT_EQ(refusal(), "node 'twice' is defined twice");

  EXPECT_EQ(refusal(), "a graph needs at least one node");
  builder.node("", [] { return 1; }).output();
  EXPECT_EQ(refusal(), "a node has no name");
}

TEST_F(GraphTest, SettingsThatCannotBeAreRefused) {
  const auto refused = [&](auto set) {
    auto node = builder.node("n", [] { return 1; }).output();
    set(node);
    return refusal();
  };
  EXPECT_EQ(refused([](auto& node) { node.timeout(0s); }), "node 'n' has a time-out of 0 or less");
  EXPECT_EQ(refused([](auto& node) { node.concurrency(0); }), "node 'n' has a concurrency of 0, so it could never run");
  EXPECT_EQ(refused([](auto& node) { node.group(""); }), "node 'n' has an empty group");
  EXPECT_NE(refused([](auto& node) { node.demand(0s, 5); }), "");
  EXPECT_NE(refused([](auto& node) { node.demand(1s, 5).concurrency(3); }), "");
}

// ---- failing

TEST_F(GraphTest, WhoNeedsWhatFailedFailsAndTheRestGoesOn) {
  auto a = broken("a");
  auto b = slow("b", 10ms, 2);
  auto c = builder
               .node(
                   "c", [](const int& x) { return x; }, a)
               .output();
  auto d = builder
               .node(
                   "d", [](const int& x) { return x; }, b)
               .output();
  auto e = builder
               .node(
                   "e", [](const int& x, const int* y) { return y == nullptr ? x : x + *y; }, b, optional(c))
               .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(a), Outcome::kFailed);
  EXPECT_EQ(run.outcome(c), Outcome::kUpstreamFailed);
  EXPECT_EQ(run.error(c)->message, "it needs 'a', which ended as failed: it broke");
  EXPECT_EQ(run[d], 2);
  EXPECT_EQ(run[e], 2);
  EXPECT_FALSE(run.complete());
}

TEST_F(GraphTest, AnOptionalInputIsWaitedForAndUsed) {
  auto a = slow("a", 10ms, 1);
  auto b = slow("b", 30ms, 2);
  auto c = builder
               .node(
                   "c", [](const int& x, const int* y) { return x + *y; }, a, optional(b))
               .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run[c], 3);
  EXPECT_EQ(run.duration(), 30ms);
}

TEST_F(GraphTest, AFallbackIsAValueOrMakesOne) {
  auto value = broken("value").otherwise(10);
  auto of_error =
      broken("of_error").otherwise([](const Error& error) { return static_cast<int>(error.message.size()); });
  auto of_view = broken("of_view").otherwise([](const RunView<Page>& run, const Error&) { return run.request().id; });
  auto downstream = builder.node("downstream", sum, value, of_error).output();
  auto throws = broken("throws").otherwise([](const Error&) -> int { throw std::runtime_error("neither"); }).output();
  auto upstream = builder
                      .node(
                          "upstream", [](const int& x) { return x; }, throws)
                      .otherwise(5)
                      .output();
  auto kept = builder
                  .node(
                      "kept", [](const int& x) { return x; }, of_view)
                  .output();
  const GraphRun run = build().run({77});
  EXPECT_EQ(run.outcome(value), Outcome::kFallback);
  EXPECT_EQ(run.error(value)->message, "it broke") << "why it was needed";
  EXPECT_EQ(run[downstream], 18);
  EXPECT_EQ(run[kept], 77);
  EXPECT_EQ(run.outcome(throws), Outcome::kFailed);
  EXPECT_EQ(run.error(throws)->message, "it broke; and its fallback: neither");
  EXPECT_EQ(run[upstream], 5);
  EXPECT_EQ(run.outcome(upstream), Outcome::kFallback);
}

TEST_F(GraphTest, ANodeThatIsNotNeededIsSkippedWithThoseWhoNeedIt) {
  auto id = builder.node("id", [](const Page& page) { return page.id; });
  auto member = builder
                    .node(
                        "member", [](const int& x) { return x; }, id)
                    .when([id](const RunView<Page>& run) { return *run.find(id) > 10; });
  auto offers = builder
                    .node(
                        "offers", [](const int& x) { return x; }, member)
                    .output();
  auto greeting = builder
                      .node(
                          "greeting", [](const int* x) { return x != nullptr; }, optional(member))
                      .output();
  auto known = builder
                   .node(
                       "known", [](const int& x) { return x; }, id)
                   .when([](const RunView<Page>&) { return false; })
                   .otherwise(-1)
                   .output();
  auto confused = builder.node("confused", [] { return 1; })
                      .when([](const RunView<Page>&) -> bool { throw std::runtime_error("?"); })
                      .output();
  build();
  const GraphRun stranger = graph->run({5});
  EXPECT_EQ(stranger.outcome(member), Outcome::kSkipped);
  EXPECT_EQ(stranger.outcome(offers), Outcome::kSkipped);
  EXPECT_FALSE(stranger[greeting]);
  EXPECT_EQ(stranger[known], -1) << "it has a default";
  EXPECT_EQ(stranger.outcome(known), Outcome::kSkipped);
  EXPECT_EQ(stranger.outcome(confused), Outcome::kFailed);
  const GraphRun friendly = graph->run({15});
  EXPECT_EQ(friendly[offers], 15);
}

TEST_F(GraphTest, WorkThatNobodyNeedsAnyMoreIsCancelled) {
  bool stopped = false;
  auto slow_one = builder.node("slow", [&](NodeContext& context) -> Task<int> {
    co_await sleep_for(500ms);
    stopped = context.stop.stop_requested();
    co_return 1;
  });
  auto unlucky = builder.node("unlucky", []() -> Task<Result<int>> {
    co_await sleep_for(10ms);
    co_return Error{ErrorCode::kInvalid, "no"};
  });
  auto both = builder.node("both", sum, slow_one, unlucky).output();
  auto other = slow("other", 50ms).output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(both), Outcome::kUpstreamFailed);
  EXPECT_EQ(run.outcome(slow_one), Outcome::kCancelled);
  EXPECT_EQ(run.outcome(other), Outcome::kOk);
  EXPECT_EQ(run.duration(), 50ms) << "nobody waits for it";
  world.executor.run_until_idle();
  EXPECT_TRUE(stopped);
}

TEST_F(GraphTest, WhatIsStillNeededElsewhereIsNot) {
  auto shared = slow("shared", 100ms, 4);
  auto unlucky = broken("unlucky");
  auto both = builder.node("both", sum, shared, unlucky).output();
  auto alone = builder
                   .node(
                       "alone", [](const int& x) { return x; }, shared)
                   .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(both), Outcome::kUpstreamFailed);
  EXPECT_EQ(run[alone], 4);
}

// ---- time

TEST_F(GraphTest, ANodeThatTakesTooLongTimesOutAndGivesItsPermitBack) {
  auto a = slow("a", 1s).timeout(100ms).output();
  auto b = builder
               .node(
                   "b", [](const int* x) { return x == nullptr; }, optional(a))
               .output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.outcome(a), Outcome::kTimedOut);
  EXPECT_TRUE(run[b]);
  EXPECT_EQ(run.duration(), 100ms);
  EXPECT_EQ(world.executor.group_stats("a")->running, 0U);
  EXPECT_EQ(world.executor.group_stats("a")->overrunning, 1U);
  world.executor.run_until_idle();
}

TEST_F(GraphTest, TheDeadlineOfTheWholeIsPassedDown) {
  std::vector<Duration> left;
  const Time start = world.clock.now();
  const auto note = [&, start](NodeContext& context) -> Task<int> {
    left.push_back(context.deadline - start);
    co_await sleep_for(80ms);
    co_return 1;
  };
  auto a = builder.node("a", note);
  auto b = builder.node(
      "b", [note](NodeContext& context, const int&) { return note(context); }, a);
  auto c = builder
               .node(
                   "c", [note](NodeContext& context, const int&) { return note(context); }, b)
               .output();
  build({.timeout = 200ms, .node_timeout = 150ms});
  const GraphRun run = graph->run({});
  EXPECT_EQ(left, (std::vector<Duration>{150ms, 200ms, 200ms}));
  EXPECT_EQ(run.outcome(b), Outcome::kOk);
  EXPECT_EQ(run.outcome(c), Outcome::kTimedOut);
  EXPECT_EQ(run.duration(), 200ms);
  const GraphRun shorter = graph->run({}, {.deadline = world.clock.now() + 50ms});
  EXPECT_EQ(shorter.outcome(a), Outcome::kTimedOut);
  EXPECT_EQ(shorter.outcome(c), Outcome::kUpstreamFailed);
  EXPECT_EQ(shorter.duration(), 50ms);
  const GraphRun over = graph->run({}, {.deadline = world.clock.now()});
  EXPECT_EQ(over.outcome(a), Outcome::kTimedOut);
  world.executor.run_until_idle();
}

TEST_F(GraphTest, RetriesWaitWithoutAPermit) {
  int tries = 0;
  auto a = builder.node("a", [&](NodeContext& context) -> Result<int> {
    ++tries;
    if (context.attempt < 3) return Error{ErrorCode::kUnavailable, "not yet"};
    return 9;
  });
  a.retry({.max_retries = 5, .backoff = 10ms, .max_backoff = 1s, .jitter = 0}).concurrency(1).output();
  build();
  const TaskHandle<GraphRun> handle = graph->start({});
  world.executor.advance(5ms);
  EXPECT_EQ(world.executor.group_stats("a")->running, 0U);
  EXPECT_EQ(world.executor.group_stats("a")->waiting, 0U);
  const GraphRun run = *handle.await().value;
  EXPECT_EQ(run[a], 9);
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(run.duration(), 30ms);
  EXPECT_EQ(run.reports()[0].attempts, 3U);
  EXPECT_EQ(run.reports()[0].queued, 0ms) << "it never waited for a permit";
}

TEST_F(GraphTest, RetriesEndWhenTheyDoNotHelpOrTimeIsOver) {
  auto wrong = broken("wrong").retries(5).output();
  auto tired =
      broken("tired", ErrorCode::kUnavailable).retry({.max_retries = 2, .backoff = 10ms, .jitter = 0}).output();
  auto late = broken("late", ErrorCode::kUnavailable)
                  .retry({.max_retries = 50, .backoff = 60ms, .jitter = 0})
                  .timeout(100ms)
                  .output();
  const GraphRun run = build().run({});
  const auto reports = run.reports();
  EXPECT_EQ(reports[0].attempts, 1U);
  EXPECT_EQ(reports[1].attempts, 3U);
  EXPECT_EQ(reports[2].attempts, 2U);
  EXPECT_EQ(run.outcome(late), Outcome::kFailed);
  static_cast<void>(wrong);
  static_cast<void>(tired);
}

TEST_F(GraphTest, ABodyThatComesLateFindsItsInputsAlive) {
  std::string seen;
  auto text = builder.node("text", [] { return std::string(100, 'x'); });
  auto late = builder
                  .node(
                      "late",
                      [&](const std::string& input) -> Task<int> {
                        co_await sleep_for(10s);
                        seen = input;
                        co_return 1;
                      },
                      text)
                  .timeout(10ms)
                  .output();
  {
    const GraphRun run = build().run({});
    EXPECT_EQ(run.outcome(late), Outcome::kTimedOut);
    graph.reset();
  }
  world.executor.run_until_idle();
  EXPECT_EQ(seen, std::string(100, 'x'));
}

// ---- running

TEST_F(GraphTest, ACancelledRunEndsAtOnce) {
  auto a = slow("a", 1s);
  auto b = builder
               .node(
                   "b", [](const int& x) { return x; }, a)
               .otherwise(5)
               .output();
  auto done = slow("done", 10ms).output();
  build();
  const TaskHandle<GraphRun> handle = graph->start({});
  world.executor.advance(100ms);
  EXPECT_FALSE(handle.is_done());
  handle.cancel();
  ASSERT_TRUE(handle.is_done());
  const GraphRun run = *handle.await().value;
  EXPECT_EQ(run.outcome(a), Outcome::kCancelled);
  EXPECT_EQ(run.outcome(b), Outcome::kCancelled) << "and nobody needs its fallback";
  EXPECT_EQ(run.outcome(done), Outcome::kOk);
  world.executor.run_until_idle();
}

TEST_F(GraphTest, ARunIsAwaitedInATask) {
  auto a = slow("a", 20ms, 3).output();
  build();
  const auto plain = world.executor.submit("pages", "plain", [&] { return graph->run({})[a]; });
  const auto coroutine = world.executor.submit("pages", "coroutine", [&]() -> Task<int> {
    const TaskResult<GraphRun> result = co_await graph->start({});
    co_return (*result.value)[a];
  });
  EXPECT_EQ(plain.await().value, 3);
  EXPECT_EQ(coroutine.await().value, 3);
}

TEST_F(GraphTest, ATaskThatRunsOutOfTimeCancelsItsRun) {
  auto a = slow("a", 10s).timeout(20s).output();
  build({.timeout = 1min});
  Outcome outcome = Outcome::kOk;
  const auto task =
      world.executor.submit("pages", "late", [&] { outcome = graph->run({}).outcome(a); }, {.run_timeout = 100ms});
  EXPECT_EQ(task.await().status, TaskStatus::kTimedOutRunning);
  world.executor.run_until_idle();
  EXPECT_EQ(outcome, Outcome::kCancelled);
}

TEST_F(GraphTest, NodeTypesAreGroupsSharedByAllRuns) {
  auto a = slow("a", 10ms).group("upstream").concurrency(2).output();
  auto b = slow("b", 10ms).group("upstream").concurrency(2).output();
  build();
  std::vector<TaskHandle<GraphRun>> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(graph->start({}));
  world.executor.advance(5ms);
  EXPECT_EQ(world.executor.group_stats("upstream")->running, 2U);
  EXPECT_EQ(world.executor.group_stats("upstream")->waiting, 6U);
  for (const auto& run : runs) EXPECT_TRUE(run.await().value->complete());
  static_cast<void>(a);
  static_cast<void>(b);
}

TEST_F(GraphTest, WhoWouldWaitTooLongIsRefusedAtOnce) {
  auto busy = slow("busy", 100ms).concurrency(1).timeout(150ms).otherwise(-1).output();
  auto strict = builder
                    .node(
                        "strict", [](const int& x) { return x; }, busy)
                    .output();
  build();
  // It learns that there is a queue.
  for (int round = 0; round < 3; ++round) {
    std::vector<TaskHandle<GraphRun>> runs;
    for (int i = 0; i < 3; ++i) runs.push_back(graph->start({}));
    for (const auto& run : runs) static_cast<void>(run.await());
    world.executor.run_until_idle();
  }
  std::vector<TaskHandle<GraphRun>> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(graph->start({}));
  world.executor.run();
  EXPECT_TRUE(runs.back().is_done()) << "at once, not after its time-out";
  const GraphRun last = *runs.back().await().value;
  EXPECT_EQ(last.outcome(busy), Outcome::kFallback);
  EXPECT_EQ(last.error(busy)->code, ErrorCode::kRejected) << last.error(busy)->message;
  EXPECT_EQ(last[strict], -1);
  for (const auto& run : runs) static_cast<void>(run.await());
  world.executor.run_until_idle();
}

TEST_F(GraphTest, AFallbackDoesNotQueue) {
  auto full = slow("full", 100ms).concurrency(1).timeout(50ms).otherwise(3).output();
  build();
  const auto blocker = world.executor.submit("full", "blocker", []() -> Task<> { co_await sleep_for(10s); });
  const GraphRun run = graph->run({});
  EXPECT_EQ(run.duration(), 50ms);
  EXPECT_EQ(run[full], 3);
  static_cast<void>(blocker.await());
}

TEST_F(GraphTest, TheEndOfTheExecutorEndsItsRuns) {
  VirtualClock clock;
  TaskHandle<GraphRun> waits;
  TaskHandle<GraphRun> retries;
  auto a = slow("a", 1s).concurrency(1).output();
  auto b = builder.node("b",
                        [](const Page&) -> Result<int> {
                          return Error{ErrorCode::kUnavailable, "no"};
                        })
               .retry({.max_retries = 100, .backoff = 500ms, .max_backoff = 500ms})
               .retry_if([](const Error&) { return true; })
               .timeout(1h)
               .output();
  {
    ManualExecutor executor(clock, {});
    auto built = builder.build(executor, {.timeout = 1h});
    waits = built->start({});
    retries = built->start({});
    executor.advance(100ms);
  }
  ASSERT_TRUE(waits.is_done());
  ASSERT_TRUE(retries.is_done());
  EXPECT_NE(retries.await().value->outcome(b), Outcome::kOk);
  static_cast<void>(a);
}

TEST_F(GraphTest, ARunThatATaskWaitsForNeedsNoPlaceOfItsOwn) {
  ASSERT_TRUE(world.executor.set_limits("pages", {.max_concurrency = 4, .max_in_flight = 1}).ok());
  auto a = slow("a", 10ms, 3).group("pages").concurrency(4).output();
  build();
  const auto task = world.executor.submit("pages", "task", [&] { return graph->run({})[a]; });
  EXPECT_EQ(task.await().value, 3);
}

TEST_F(GraphTest, AValueThatCannotBeMovedIsAFailure) {
  struct Fragile {
    explicit Fragile(int* countdown) : moves(countdown) {}
    Fragile(Fragile&& other) : moves(other.moves) {
      if (--*moves == 0) throw std::runtime_error("dropped it");
    }
    int* moves;
  };
  for (int at = 1; at < 12; ++at) {
    GraphBuilder<Page> fragile;
    int plain_left = at;
    int async_left = at;
    auto plain = fragile.node("plain", [&] { return Fragile(&plain_left); }).output();
    auto async = fragile.node("async", [&]() -> Task<Fragile> { co_return Fragile(&async_left); }).output();
    auto built = fragile.build(world.executor);
    const GraphRun run = built->run({});
    EXPECT_EQ(run.outcome(plain), plain_left <= 0 ? Outcome::kFailed : Outcome::kOk) << at;
    EXPECT_EQ(run.outcome(async), async_left <= 0 ? Outcome::kFailed : Outcome::kOk) << at;
  }
}

TEST_F(GraphTest, RetryIfIsAskedWithNoLockHeld) {
  auto a = broken("a").retry({.max_retries = 2, .backoff = 1ms, .jitter = 0}).output();
  a.retry_if([&](const Error&) {
    static_cast<void>(graph->size_changes());
    return true;
  });
  build();
  EXPECT_EQ(graph->run({}).reports()[0].attempts, 3U);
}

TEST_F(GraphTest, AFallbackOfNothingIsCalledToo) {
  auto node = builder.node("node",
                           []() -> Result<bool> {
                             return Error{ErrorCode::kInvalid, "no"};
                           })
                  .otherwise([] { return false; })
                  .output();
  EXPECT_FALSE(build().run({})[node]);
}

TEST_F(GraphTest, AFarDescendantIsToldTheFirstReason) {
  auto last = broken("n0");
  for (int i = 1; i < 500; ++i)
    last = builder.node(
        "n" + std::to_string(i), [](const int& x) { return x; }, last);
  last.output();
  const GraphRun run = build().run({});
  EXPECT_EQ(run.error(last)->message, "it needs 'n0', which ended as failed: it broke");
}

// ---- seen from outside

TEST_F(GraphTest, ShowsItsLayersAndItsDrawing) {
  auto a = builder.node("a", [] { return 1; });
  auto b = builder.node("b", [] { return 2; }).group("g\"1");
  auto c = builder.node("c", sum, a, b);
  auto d = builder
               .node(
                   "d", [](const int& x, const int*) { return x; }, b, optional(c))
               .output();
  build({.name = "page"});
  EXPECT_EQ(graph->layers(), (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}, {"d"}}));
  const std::string dot = graph->to_dot();
  EXPECT_NE(dot.find("digraph \"page\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("\"c\" -> \"d\" [style=dashed]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("\"b\" [label=\"b\\ng\\\"1\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("\"d\" [peripheries=2]"), std::string::npos) << dot;
  const std::string drawn = graph->to_dot(graph->run({}));
  EXPECT_NE(drawn.find("ok"), std::string::npos) << drawn;
  EXPECT_NE(drawn.find("penwidth=3"), std::string::npos) << drawn;
  static_cast<void>(d);
}

TEST_F(GraphTest, KnowsTheCriticalPathAndCounts) {
  auto quick = slow("quick", 10ms);
  auto slow_one = slow("slow", 50ms);
  auto end = builder
                 .node(
                     "end",
                     [](const int& x, const int& y) -> Task<int> {
                       co_await sleep_for(5ms);
                       co_return x + y;
                     },
                     quick, slow_one)
                 .output();
  auto fails = broken("fails").otherwise(0).output();
  build();
  for (int i = 0; i < 10; ++i) static_cast<void>(graph->run({}));
  const GraphRun run = graph->run({});
  std::map<std::string, NodeReport> reports;
  for (const NodeReport& report : run.reports()) reports[report.name] = report;
  EXPECT_FALSE(reports["quick"].on_critical_path);
  EXPECT_TRUE(reports["slow"].on_critical_path);
  EXPECT_TRUE(reports["end"].on_critical_path);
  EXPECT_EQ(reports["slow"].ran, 50ms);
  EXPECT_EQ(reports["end"].ready, 50ms);
  EXPECT_EQ(reports["end"].ran, 5ms);
  EXPECT_EQ(reports["end"].queued, 0ms);

  const GraphStats stats = graph->stats();
  EXPECT_EQ(stats.runs, 11U);
  EXPECT_EQ(stats.complete, 11U);
  EXPECT_GE(stats.p50, 50ms);
  EXPECT_EQ(stats.nodes[1].count(Outcome::kOk), 11U);
  EXPECT_EQ(stats.nodes[1].on_critical_path, 11U);
  EXPECT_EQ(stats.nodes[0].on_critical_path, 0U);
  EXPECT_EQ(stats.nodes[3].count(Outcome::kFallback), 11U);
  EXPECT_GE(stats.nodes[1].p50, 45ms);
  EXPECT_LE(stats.nodes[1].p50, 57ms);
  EXPECT_EQ(stats.nodes[1].saturation(), 0.0);
  static_cast<void>(end);
  static_cast<void>(fails);
}

TEST_F(GraphTest, GroupsAreSizedByDemand) {
  auto big = slow("big", 100ms).demand(100ms, 60).output();
  auto small = slow("small", 10ms).demand(10ms, 100).output();
  auto fixed = slow("fixed", 10ms).concurrency(5).output();
  build({.concurrency = 19});
  EXPECT_EQ(world.executor.resolve("big").max_concurrency, 12U);
  EXPECT_EQ(world.executor.resolve("small").max_concurrency, 2U);
  EXPECT_EQ(world.executor.resolve("fixed").max_concurrency, 5U);
  EXPECT_EQ(graph->stats().nodes[0].concurrency, 12U);
  static_cast<void>(big);
  static_cast<void>(small);
  static_cast<void>(fixed);
}

TEST_F(GraphTest, GroupsFollowMeasuredDemand) {
  Duration latency = 10ms;
  auto changing = builder.node("changing", [&]() -> Task<> { co_await sleep_for(latency); }).output();
  auto steady = slow("steady", 10ms).output();
  std::vector<SizeChange> told;
  build({.concurrency = 20, .resize_every = 2s, .on_resize = [&](const SizeChange& change) {
           told.push_back(change);
           throw std::runtime_error("a listener's trouble is its own");
         }});
  EXPECT_EQ(world.executor.resolve("changing").max_concurrency, 10U);
  const auto run_for = [&](Duration duration) {
    const Time until = world.clock.now() + duration;
    while (world.clock.now() < until) {
      static_cast<void>(graph->start({}));
      world.executor.advance(10ms);
    }
  };
  run_for(10s);
  EXPECT_TRUE(told.empty()) << "both need the same";
  latency = 90ms;
  run_for(5s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].group, "changing");
  EXPECT_EQ(told[0].from, 10U);
  EXPECT_EQ(told[0].to, 12U) << "in small steps";
  EXPECT_NE(told[0].reason.find("busy on average"), std::string::npos) << told[0].reason;
  run_for(30s);
  EXPECT_GE(world.executor.resolve("changing").max_concurrency, 15U);
  EXPECT_LE(world.executor.resolve("steady").max_concurrency, 5U);
  EXPECT_EQ(graph->size_changes().size(), told.size());
  const std::size_t changes = told.size();
  run_for(20s);
  EXPECT_EQ(told.size(), changes) << "and then it is at rest";
  world.executor.run_until_idle();
  static_cast<void>(changing);
  static_cast<void>(steady);
}

}  // namespace
}  // namespace cohort
