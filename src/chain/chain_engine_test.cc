// Durable chains on one node, in virtual time.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "chain/chain_world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class ChainEngineTest : public ChainWorldTest {};

TEST_F(ChainEngineTest, StepsRunInOrderAndTheirOutputsMeet) {
  start();
  submit(chain("t", {{.plugin = "note", .parameters = R"({"as":"a"})"},
                     {.plugin = "skip"},
                     {.plugin = "note", .parameters = R"({"as":"b"})"}}));
  advance(0s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(ran, (std::vector<std::string>{"t/0", "t/2"}));
  EXPECT_EQ(get("t").context, R"({"a":1,"b":1})");
  EXPECT_EQ(engine->stats().completed, 1U);
  EXPECT_EQ(engine->stats().running, 0U);
}

TEST_F(ChainEngineTest, BadRequestsAreRefusedBeforeAnythingIsWritten) {
  start();
  const auto error_of = [&](NewTask task) { return engine->submit(std::move(task)).await().error.value_or(Error()); };
  EXPECT_NE(error_of(chain("t", {{.plugin = "nobody"}})).message.find("there are: "), std::string::npos);
  EXPECT_EQ(error_of(chain("t", {{.plugin = "ok", .parameters = "[]"}})).code, ErrorCode::kInvalid);
  NewTask bad = chain("t", {});
  bad.payload = "{";
  EXPECT_EQ(error_of(bad).code, ErrorCode::kInvalid);
  bad.payload = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_EQ(error_of(bad).code, ErrorCode::kInvalid);
  bad = chain("t", {});
  bad.file = "file:/etc/passwd";
  EXPECT_EQ(error_of(bad).code, ErrorCode::kInvalid);
  EXPECT_EQ(error_of(chain("t", {}, "")).code, ErrorCode::kInvalid);
  EXPECT_TRUE(store->all().empty());
  const auto all = engine
                       ->submit_all({chain("a", {{.plugin = "ok"}}), chain("b", {{.plugin = "nobody"}}),
                                     chain("", {{.plugin = "ok"}})})
                       .await();
  EXPECT_TRUE((*all.value)[0] && !(*all.value)[1] && (*all.value)[2]);
  EXPECT_EQ((*all.value)[2]->task_id.size(), 32U);
}

TEST_F(ChainEngineTest, AFailureEndsTheChainWithADeadLetter) {
  start();
  submit(chain("t", {{.plugin = "ok"}, {.plugin = "fail"}, {.plugin = "note"}}));
  advance(0s);
  EXPECT_EQ(get("t").state, ChainState::kFailed);
  EXPECT_TRUE(ran.empty());
  ASSERT_EQ(letters().size(), 1U);
  EXPECT_EQ(letters()[0].reason, "step 2 ('fail') failed: it says no");
  EXPECT_EQ(letters()[0].step, 1U);
}

TEST_F(ChainEngineTest, ARetryableFailureIsTriedFourTimes) {
  std::vector<Duration> at;
  add("flaky", [&](StepContext&) {
    at.push_back(world->clock.now().time_since_epoch() - 1h);
    return PluginResult::retry("busy");
  });
  start({.retry = {.jitter = 0}});
  submit(chain("t", {{.plugin = "flaky"}}));
  advance(1min);
  EXPECT_EQ(at, (std::vector<Duration>{0s, 1s, 3s, 7s}));
  EXPECT_EQ(get("t").state, ChainState::kFailed);
  EXPECT_EQ(letters().at(0).reason, "step 1 ('flaky') failed 4 times, the last: busy");
  EXPECT_EQ(letters().at(0).attempts, 4U);
  EXPECT_EQ(engine->stats().retried, 3U);
}

TEST_F(ChainEngineTest, ExceptionsAreTakenForWhatTheyAre) {
  add("network", [](StepContext& step) -> PluginResult {
    if (step.attempt() < 3) throw std::system_error(std::make_error_code(std::errc::connection_reset));
    return PluginResult::success();
  });
  add("bug", [](StepContext&) -> PluginResult { throw std::invalid_argument("a bug"); });
  start();
  submit(chain("network", {{.plugin = "network"}}));
  submit(chain("bug", {{.plugin = "bug"}}));
  advance(1min);
  EXPECT_EQ(get("network").state, ChainState::kCompleted);
  EXPECT_EQ(get("bug").state, ChainState::kFailed);
  EXPECT_EQ(get("bug").attempt, 1U);
}

TEST_F(ChainEngineTest, ALongBackOffGivesThePermitsBack) {
  add("later", [](StepContext& step) {
    return step.attempt() == 1 ? PluginResult::retry("not yet", 30s) : PluginResult::success();
  });
  start({}, 1);
  submit(chain("t", {{.plugin = "later"}}));
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kReady);
  EXPECT_EQ(engine->stats().kept, 1U);
  submit(chain("u", {{.plugin = "note"}}));
  advance(0s);
  EXPECT_EQ(get("u").state, ChainState::kCompleted);
  advance(28s);
  EXPECT_EQ(get("t").state, ChainState::kReady);
  advance(2s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(engine->stats().kept, 0U);
}

TEST_F(ChainEngineTest, DelayedTasksStartAtTheirTime) {
  start();
  NewTask later = chain("t", {{.plugin = "note"}});
  later.start_at = wall->now() + 90min;
  submit(later);
  advance(89min);
  EXPECT_TRUE(ran.empty());
  advance(1min);
  EXPECT_EQ(ran.size(), 1U);
}

TEST_F(ChainEngineTest, LimitsHoldAndAFloodDelaysNobody) {
  start({}, 2);
  std::vector<NewTask> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(chain("f" + std::to_string(i), {{.plugin = "sleep"}}, "flood"));
  ASSERT_TRUE(engine->submit_all(flood).await().ok());
  advance(500ms);
  submit(chain("one", {{.plugin = "note"}}, "small"));
  advance(2s);
  EXPECT_EQ(get("one").state, ChainState::kCompleted);
  EXPECT_LE(most_sleeping, 2);
  EXPECT_LE(engine->stats().running, 2U);
  advance(100s);
  for (const ChainTask& task : store->all()) EXPECT_EQ(task.state, ChainState::kCompleted);
  EXPECT_EQ(most_sleeping, 2);
}

TEST_F(ChainEngineTest, APausedGroupWaitsWithoutHarm) {
  start();
  ASSERT_TRUE(engine->pause_group("g").await().ok());
  submit(chain("t", {{.plugin = "note"}}));
  submit(chain("other", {{.plugin = "note"}}, "other"));
  advance(5h);
  EXPECT_EQ(ran, std::vector<std::string>{"other/0"});
  ASSERT_TRUE(engine->resume_group("g").await().ok());
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted) << "its deadline of an hour waited too";
}

TEST_F(ChainEngineTest, ATimeOutAsksTheStepToStopAndTriesAgain) {
  std::vector<bool> stopped;
  add_async("slow", [&](StepContext& step) -> Task<PluginResult> {
    const Duration long_enough = step.attempt() == 1 ? Duration(12s) : Duration(1s);
    for (Duration slept{}; slept < long_enough && !step.stop_token().stop_requested(); slept += 1s)
      co_await sleep_for(1s);
    stopped.push_back(step.stop_token().stop_requested());
    co_return PluginResult::success();
  });
  start();
  submit(chain("t", {{.plugin = "slow", .timeout = 10s}}));
  advance(1min);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(stopped, (std::vector{true, false}));
}

TEST_F(ChainEngineTest, ABodyThatDoesNotEndFailsItsTaskAndPausesItsPlugin) {
  bool ended = false;
  add_async("stuck", [&](StepContext& step) -> Task<PluginResult> {
    if (step.task_id() == "t") {
      co_await sleep_for(10min);
      ended = true;
    }
    co_return PluginResult::success();
  });
  start({}, 1);
  submit(chain("t", {{.plugin = "stuck", .timeout = 10s}}));
  advance(20s);
  EXPECT_EQ(get("t").state, ChainState::kProcessing) << "no second attempt while the body runs";
  submit(chain("elsewhere", {{.plugin = "stuck"}}, "other"));
  advance(25s);
  EXPECT_EQ(get("t").state, ChainState::kFailed);
  EXPECT_EQ(get("elsewhere").state, ChainState::kCompleted) << "its permits came back";
  ASSERT_TRUE(world->executor.set_limits("g", {.max_overrunning = 5}));
  submit(chain("next", {{.plugin = "stuck"}}));
  submit(chain("another", {{.plugin = "note"}}));
  advance(1min);
  EXPECT_EQ(get("next").state, ChainState::kReady) << "the plugin is paused for this tenant";
  EXPECT_EQ(get("another").state, ChainState::kCompleted);
  advance(10min);
  EXPECT_TRUE(ended);
  EXPECT_EQ(get("next").state, ChainState::kCompleted);
}

TEST_F(ChainEngineTest, ATimeOutThatIsHeededIsNoCrash) {
  add_async("slow", [](StepContext& step) -> Task<PluginResult> {
    while (!step.stop_token().stop_requested()) co_await sleep_for(100ms);
    co_return PluginResult::retry("stopped");
  });
  start({.retry = {.max_retries = 2}});
  submit(chain("t", {{.plugin = "slow", .timeout = 10s}}));
  advance(25s);
  EXPECT_GE(get("t").failures, 1U);
  EXPECT_TRUE(get("t").crashes.empty());
  advance(1min);
  EXPECT_EQ(get("t").state, ChainState::kFailed);
}

TEST_F(ChainEngineTest, ASuspectThatHangsBlocksNobodyForLong) {
  add_async("deaf", [](StepContext& step) -> Task<PluginResult> {
    co_await sleep_for(step.attempt() <= 2 ? Duration(15s) : Duration(10min));
    co_return PluginResult::success();
  });
  start({.retry = {.backoff = 1s, .jitter = 0}});
  submit(chain("t", {{.plugin = "deaf", .timeout = 10s}}));
  advance(35s);
  EXPECT_EQ(get("t").crashes.size(), 2U);
  EXPECT_TRUE(get("t").alone) << "it runs alone now";
  EXPECT_EQ(engine->gate().alone, "t");
  submit(chain("other", {{.plugin = "note"}}, "other"));
  advance(5s);
  EXPECT_EQ(get("other").state, ChainState::kReady);
  advance(40s);
  EXPECT_EQ(get("t").state, ChainState::kFailed) << "its grace is over";
  EXPECT_EQ(get("other").state, ChainState::kCompleted) << "though its body has not ended";
}

TEST_F(ChainEngineTest, RunningTimeIsCountedOnce) {
  start();
  submit(chain("t", {{.plugin = "sleep", .parameters = R"({"ms":5000})"}, {.plugin = "note"}}));
  advance(1s);
  auto drained = engine->drain(1min);
  advance(10s);
  EXPECT_TRUE(drained.is_done());
  EXPECT_EQ(get("t").step, 1U);
  EXPECT_EQ(get("t").ran, 5s);
}

TEST_F(ChainEngineTest, SeveralTimesInOneGroupAreAllKept) {
  start();
  for (int i = 1; i <= 5; ++i) {
    NewTask later = chain("t" + std::to_string(i), {{.plugin = "note"}});
    later.start_at = wall->now() + std::chrono::seconds(i);
    submit(later);
  }
  for (std::size_t i = 1; i <= 5; ++i) {
    advance(1s);
    EXPECT_EQ(ran.size(), i);
  }
}

TEST_F(ChainEngineTest, TheChainLimitCountsOverAllRuns) {
  start({.chain_limit = 10s});
  submit(chain("t", {{.plugin = "sleep", .parameters = R"({"ms":6000})"},
                     {.plugin = "sleep", .parameters = R"({"ms":3000})"},
                     {.plugin = "sleep", .parameters = R"({"ms":6000})", .retry = RetryPolicy{.max_retries = 0}}}));
  advance(1min);
  EXPECT_EQ(get("t").state, ChainState::kFailed);
  EXPECT_EQ(get("t").step, 2U);
}

TEST_F(ChainEngineTest, CancelReachesARunningStep) {
  add_async("patient", [](StepContext& step) -> Task<PluginResult> {
    while (!step.stop_token().stop_requested()) co_await sleep_for(100ms);
    co_return PluginResult::failure("stopped");
  });
  start();
  submit(chain("t", {{.plugin = "patient"}}));
  advance(1s);
  EXPECT_EQ(engine->cancel("t", "enough").await().value->state, ChainState::kProcessing);
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kCancelled);
  EXPECT_EQ(get("t").error, "enough");
  EXPECT_TRUE(letters().empty());
}

TEST_F(ChainEngineTest, ReplayGoesOnFromTheFailedStepWithTheSameToken) {
  bool works = false;
  std::vector<std::string> tokens;
  add("repaired", [&](StepContext& step) {
    tokens.push_back(step.idempotency_token());
    return works ? PluginResult::success() : PluginResult::failure("broken");
  });
  start();
  submit(chain("t", {{.plugin = "note"}, {.plugin = "repaired"}}));
  advance(1s);
  EXPECT_EQ(letters().size(), 1U);
  works = true;
  ASSERT_TRUE(engine->replay({.task_id = "t"}).await().ok());
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(ran, std::vector<std::string>{"t/0"});
  EXPECT_EQ(tokens, (std::vector<std::string>{"t/1", "t/1"}));
  EXPECT_TRUE(letters().empty());
}

TEST_F(ChainEngineTest, ProgressAndLogLinesAreSeen) {
  add_async("talks", [](StepContext& step) -> Task<PluginResult> {
    step.report_progress(0.5, "half way");
    step.log("one");
    co_await sleep_for(3s);
    step.log("two");
    co_return PluginResult::failure("no");
  });
  start();
  submit(chain("t", {{.plugin = "talks"}}));
  advance(2s);
  EXPECT_EQ(get("t").progress, 0.5);
  EXPECT_EQ(get("t").progress_note, "half way");
  advance(2s);
  EXPECT_EQ(get("t").log, (std::vector<std::string>{"one", "two"}));
}

// Whose file is fetched into a private folder, and how often.
class ChainFilesTest : public ChainWorldTest {
 protected:
  ChainFilesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    work = ::mkdtemp(name.data());
    std::filesystem::create_directory(work / "run-stale");
    add("look", [this](StepContext& step) {
      seen.push_back(std::filesystem::exists(step.local_file()));
      return PluginResult::success();
    });
    add("later", [this](StepContext& step) {
      seen.push_back(std::filesystem::exists(step.local_file()));
      return step.attempt() == 1 ? PluginResult::retry("not yet", 10s) : PluginResult::success();
    });
    start({.work_folder = work,
           .fetch = [this](const std::string& reference, const std::filesystem::path& folder,
                           const std::stop_token&) -> Result<std::filesystem::path> {
             ++fetched;
             if (fetched <= short_of_means) return Error{ErrorCode::kRejected, "too many open files"};
             if (fetched <= failures) return Error{ErrorCode::kUnavailable, "no answer"};
             if (reference == "bad:") return Error{ErrorCode::kInvalid, "no such scheme"};
             std::ofstream(folder / "file") << reference;
             return folder / "file";
           }});
  }
  ~ChainFilesTest() override {
    engine.reset();
    EXPECT_TRUE(std::filesystem::is_empty(work));
    std::filesystem::remove_all(work);
  }
  void submit_with_file(std::vector<ChainStep> steps, const std::string& file = "some:file") {
    NewTask task = chain("t", std::move(steps));
    task.file = file;
    submit(task);
  }

  /// The folders of runs, of this engine and of those before it.
  [[nodiscard]] int runs() const {
    int count = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(work)) {
      count += each.path().filename().string().starts_with("run-") ? 1 : 0;
    }
    return count;
  }

  std::filesystem::path work;
  int fetched = 0;
  int failures = 0;
  int short_of_means = 0;
  std::vector<bool> seen;
};

TEST_F(ChainFilesTest, OnceForAllStepsOfARunAndThenGone) {
  EXPECT_EQ(runs(), 0) << "what others left is gone";
  submit_with_file({{.plugin = "look"}, {.plugin = "look"}, {.plugin = "fail"}});
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kFailed);
  EXPECT_EQ(seen, (std::vector{true, true}));
  EXPECT_EQ(fetched, 1);
  EXPECT_EQ(runs(), 0);
}

TEST_F(ChainFilesTest, AnotherEngineLeavesItsFolderAlone) {
  submit_with_file({{.plugin = "later"}});
  advance(5s);
  ASSERT_EQ(runs(), 1);
  {
    MemoryStore other_store(*wall);
    ChainEngine other(other_store, world->executor, plugins, {.work_folder = work, .lease_clock = &world->clock});
    ASSERT_TRUE(other.start().await().ok());
    EXPECT_EQ(runs(), 1) << "it is locked";
  }
  advance(6s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
}

TEST_F(ChainFilesTest, AShortageOfThisNodeUsesUpNoRetry) {
  short_of_means = 8;
  submit_with_file({{.plugin = "look", .retry = RetryPolicy{.max_retries = 0}}});
  advance(10s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(fetched, 9);
}

TEST_F(ChainFilesTest, ItIsKeptForTheNextAttempt) {
  submit_with_file({{.plugin = "later"}});
  advance(5s);
  EXPECT_EQ(runs(), 1);
  advance(6s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(fetched, 1);
  EXPECT_EQ(runs(), 0);
}

TEST_F(ChainFilesTest, AFetchThatMayPassIsTriedAgainAnotherIsNot) {
  failures = 2;
  submit_with_file({{.plugin = "look"}});
  advance(1min);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(fetched, 3);
  NewTask bad = chain("bad", {{.plugin = "look"}});
  bad.file = "bad:";
  submit(bad);
  advance(1s);
  EXPECT_EQ(get("bad").state, ChainState::kFailed);
  EXPECT_NE(get("bad").error.find("no such scheme"), std::string::npos);
}

TEST_F(ChainEngineTest, AnInterruptionUsesUpNoRetry) {
  int tries = 0;
  add("interrupted", [&](StepContext&) {
    if (++tries <= 6) return PluginResult::interrupted("no more processes", 2s);
    return tries == 7 ? PluginResult::retry("once") : PluginResult::success();
  });
  start();
  submit(chain("t", {{.plugin = "interrupted", .retry = RetryPolicy{.max_retries = 1, .backoff = 1s}}}));
  advance(1s);
  EXPECT_EQ(get("t").state, ChainState::kReady);
  EXPECT_EQ(get("t").failures, 0U);
  EXPECT_EQ(get("t").error, "no more processes");
  advance(20s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(tries, 8);
}

TEST_F(ChainEngineTest, NoLeaseIsLostWhileTheFolderIsLocked) {
  start();
  submit(chain("t", {{.plugin = "sleep", .parameters = R"({"ms": 60000})"}}));
  advance(1s);
  wall->set_skew(1h);  // (On this store all times follow the wall clock.)
  advance(20s);
  EXPECT_TRUE(engine->stats().has_lease);
  EXPECT_EQ(engine->stats().lost_leases, 0U);
  wall->set_skew(-1h);
  advance(40s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
  EXPECT_EQ(get("t").epoch, 1U);
  EXPECT_EQ(ran.size(), 1U) << "a healthy step is not repeated";
}

TEST_F(ChainEngineTest, TheGateTellsWhoHasTheNode) {
  start();
  submit(chain("t", {{.plugin = "sleep", .parameters = R"({"ms": 5000})"}}));
  advance(1s);
  EXPECT_EQ(engine->gate().inside, std::vector<std::string>{"t"});
  EXPECT_EQ(engine->gate().alone, "");
}

TEST_F(ChainEngineTest, OutputsHaveALimit) {
  add("big", [](StepContext&) { return PluginResult::success({{"text", std::string(300'000, 'x')}}); });
  add("odd", [](StepContext&) { return PluginResult::success(nlohmann::json::array({1})); });
  start();
  submit(chain("big", {{.plugin = "big"}}));
  submit(chain("odd", {{.plugin = "odd"}}));
  advance(0s);
  EXPECT_EQ(get("big").state, ChainState::kFailed);
  EXPECT_EQ(get("odd").state, ChainState::kFailed);
}

TEST_F(ChainEngineTest, DrainingFinishesOrGivesBack) {
  add_async("patient", [](StepContext& step) -> Task<PluginResult> {
    while (!step.stop_token().stop_requested()) co_await sleep_for(100ms);
    co_return PluginResult::retry("stopped");
  });
  start();
  submit(chain("soon", {{.plugin = "sleep"}, {.plugin = "note"}}));
  submit(chain("never", {{.plugin = "patient"}}));
  advance(0s);
  auto drained = engine->drain(10s);
  advance(5s);
  EXPECT_FALSE(drained.is_done());
  EXPECT_EQ(get("soon").state, ChainState::kReady) << "checkpointed, not started again";
  EXPECT_EQ(get("soon").step, 1U);
  submit(chain("still taken", {{.plugin = "ok"}}));
  advance(6s);
  EXPECT_TRUE(drained.is_done());
  EXPECT_EQ(get("never").state, ChainState::kReady);
  EXPECT_EQ(get("never").failures, 0U);
  EXPECT_TRUE(get("never").crashes.empty());

  start();
  advance(2s);
  EXPECT_EQ(get("soon").state, ChainState::kCompleted);
  EXPECT_EQ(get("still taken").state, ChainState::kCompleted);
}

TEST_F(ChainEngineTest, AnEngineThatIsDestroyedGivesItsWorkBack) {
  start();
  submit(chain("t", {{.plugin = "note"}, {.plugin = "sleep", .parameters = R"({"ms":5000})"}, {.plugin = "note"}}));
  advance(1s);
  engine.reset();
  EXPECT_EQ(get("t").state, ChainState::kReady);
  EXPECT_EQ(get("t").step, 2U) << "a step that ended well has its checkpoint";
  start();
  advance(10s);
  EXPECT_EQ(get("t").state, ChainState::kCompleted);
}

TEST_F(ChainEngineTest, EndedTasksAreForgottenAfterTheirTime) {
  EXPECT_EQ(ChainOptions().retention, 168h) << "a week, if nothing else is said";
  start({.retention = 2h});
  submit(chain("t", {{.plugin = "ok"}}));
  advance(119min);
  EXPECT_EQ(store->all().size(), 1U);
  advance(3min);
  EXPECT_TRUE(store->all().empty());
}

}  // namespace
}  // namespace cohort
