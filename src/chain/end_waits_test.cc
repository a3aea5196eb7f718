// Waiting for the end of a task, in virtual time.

#include "chain/end_waits.h"

#include "chain/chain_world_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class EndWaitsTest : public ChainWorldTest {
 protected:
  static ErrorCode code_of(const TaskHandle<ChainTask>& wait) {
    const TaskResult<ChainTask> result = wait.await();
    return result.error ? result.error->code : ErrorCode::kInternal;
  }
};

TEST_F(EndWaitsTest, AWaitEndsWithItsTask) {
  start();
  submit(chain("t", {{.plugin = "sleep"}, {.plugin = "note"}}));
  const TaskHandle<ChainTask> wait = engine->wait("t");
  const TaskHandle<ChainTask> another = engine->wait("t");

  advance(900ms);
  EXPECT_FALSE(wait.is_done());
  advance(100ms);

  ASSERT_TRUE(wait.is_done());
  EXPECT_EQ(wait.await().value->state, ChainState::kCompleted);
  EXPECT_EQ(wait.await().value->context, R"({"x":1})");
  EXPECT_TRUE(another.is_done());
}

TEST_F(EndWaitsTest, ATaskThatHasEndedIsWaitedForAtOnce) {
  start();
  submit(chain("t", {{.plugin = "fail"}}));
  advance(0s);

  const TaskHandle<ChainTask> wait = engine->wait("t");

  ASSERT_TRUE(wait.is_done());
  EXPECT_EQ(wait.await().value->state, ChainState::kFailed);
}

TEST_F(EndWaitsTest, AnUnknownTaskIsNotWaitedFor) {
  start();
  EXPECT_EQ(code_of(engine->wait("nobody")), ErrorCode::kNotFound);
}

TEST_F(EndWaitsTest, TheStopOfTheNodeEndsTheWait) {
  start();
  NewTask pending = chain("t", {{.plugin = "ok"}});
  pending.pending = true;
  submit(pending);
  const TaskHandle<ChainTask> wait = engine->wait("t");

  const TaskHandle<void> drained = engine->drain(1s);
  advance(1s);

  ASSERT_TRUE(drained.is_done());
  ASSERT_TRUE(wait.is_done());
  EXPECT_EQ(code_of(wait), ErrorCode::kEnded);
  EXPECT_EQ(code_of(engine->wait("t")), ErrorCode::kEnded);
  EXPECT_EQ(get("t").state, ChainState::kPending) << "the task itself is kept";
}

TEST_F(EndWaitsTest, ACancelledWaitLeavesTheTaskAlone) {
  start();
  submit(chain("t", {{.plugin = "sleep"}}));
  TaskHandle<ChainTask> given_up = engine->wait("t");
  const TaskHandle<ChainTask> other = engine->wait("t");

  given_up.cancel();

  EXPECT_EQ(code_of(given_up), ErrorCode::kCancelled);
  advance(1s);
  EXPECT_EQ(other.await().value->state, ChainState::kCompleted);
}

TEST_F(EndWaitsTest, AnEndThatNoNewsToldOfIsFoundByALook) {
  make_world();
  ChainCalls calls;
  const auto owner = std::make_shared<int>(0);
  calls.bind(owner, [] {});
  const auto waits = std::make_shared<EndWaits>(*store, world->executor, calls);
  store->submit({chain("t", {{.plugin = "ok"}})}, [](const auto& submitted) { EXPECT_TRUE(submitted); });
  const TaskHandle<ChainTask> wait = waits->wait("t");
  store->cancel("t", "by another node", [](const Result<ChainRow>& row) { EXPECT_TRUE(row); });
  EXPECT_FALSE(wait.is_done());

  waits->look();

  ASSERT_TRUE(wait.is_done());
  EXPECT_EQ(wait.await().value->state, ChainState::kCancelled);
}

TEST_F(EndWaitsTest, ThousandsWaitAndEachEndsOnce) {
  start({}, 1000);
  std::vector<TaskHandle<ChainTask>> waits;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = "t" + std::to_string(i);
    submit(chain(id, {{.plugin = i % 2 == 0 ? "ok" : "sleep"}}, "g" + std::to_string(i % 7)));
    waits.push_back(engine->wait(id));
  }

  advance(10s);

  for (const TaskHandle<ChainTask>& each : waits) {
    ASSERT_TRUE(each.is_done());
    EXPECT_EQ(each.await().value->state, ChainState::kCompleted);
  }
}

}  // namespace
}  // namespace cohort
