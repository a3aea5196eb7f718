// Chains that the options name, deadlines that they give, and what a submit refuses, through the engine.

#include "chain/chain_world_test_fixture.h"
#include "cohort/chain/chain_template.h"
#include "cohort/chain/task_json.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class NamedChainsTest : public ChainWorldTest {
 protected:
  // One parameter with a default, one without.
  static ChainOptions options(const std::string& plugin = "note") {
    ChainTemplate shrink;
    shrink.parameters["width"] = {.type = ChainParameter::Type::kInteger, .initial = 200, .minimum = 1};
    shrink.parameters["as"] = {};
    shrink.steps = {{.plugin = plugin, .parameters = R"({"as": "${as}", "width": "${width}"})"}};
    return {.templates = {{"shrink", shrink}}};
  }
  static NewTask named(const std::string& id, const std::string& parameters) {
    NewTask task = chain(id, {});
    task.chain = "shrink";
    task.parameters = parameters;
    return task;
  }
  std::string refusal(NewTask task) {
    const TaskResult<Submitted> submitted = engine->submit(std::move(task)).await();
    return submitted.error ? submitted.error->message : "";
  }
};

TEST_F(NamedChainsTest, ASubmitExpandsTheNamedChain) {
  start(options());
  submit(named("t", R"({"as": "w", "width": "300"})"));
  advance(0s);

  const ChainTask task = get("t");
  EXPECT_EQ(task.state, ChainState::kCompleted);
  EXPECT_EQ(task.context, R"({"w":1})");
  EXPECT_EQ(task.request.chain, "shrink");
  EXPECT_EQ(json::parse(task.request.parameters), json({{"as", "w"}, {"width", 300}}));
  ASSERT_EQ(task.request.steps.size(), 1U);
  EXPECT_EQ(json::parse(task.request.steps[0].parameters), json({{"as", "w"}, {"width", 300}}));
}

TEST_F(NamedChainsTest, WrongNamesAndValuesAreRefusedWithTheirPlace) {
  start(options());
  EXPECT_EQ(refusal(named("t", R"({"width": 3})")),
            "chain 'shrink': the parameter 'as' of the chain is missing; it has no default");
  EXPECT_EQ(refusal(named("t", R"({"as": "w", "width": 0})")),
            "chain 'shrink': the parameter 'width' must be at least 1.0; it is 0");
  EXPECT_EQ(refusal(named("t", "[]")), "'parameters' must be a JSON object of at most 64 levels");
  NewTask task = named("t", "{}");
  task.chain = "grow";
  EXPECT_EQ(refusal(task), "there is no chain 'grow'; there are: shrink");
  task = named("t", R"({"as": "w"})");
  task.steps = {{.plugin = "ok"}};
  EXPECT_EQ(refusal(task), "give 'chain' or 'steps', not both");
  task = chain("t", {{.plugin = "ok"}});
  task.parameters = R"({"as": "w"})";
  EXPECT_EQ(refusal(task), "'parameters' are those of a named chain: give 'chain' with them");
  EXPECT_TRUE(store->all().empty());
}

TEST_F(NamedChainsTest, ValuesHaveALimitInBytes) {
  ChainOptions three_times = options();
  three_times.templates["shrink"].steps.assign(3, three_times.templates["shrink"].steps[0]);
  start(three_times);
  const auto refusal_of = [&](std::size_t bytes) {
    return refusal(named("t", R"({"as": ")" + std::string(bytes, 'x') + "\"}"));
  };

  EXPECT_NE(refusal_of(2'000'000).find("'parameters' has 2000010 bytes"), std::string::npos) << refusal_of(2'000'000);
  EXPECT_NE(refusal_of(500'000).find("with its values the parameters of its steps have more than"), std::string::npos);
  EXPECT_EQ(refusal_of(1000), "");
}

TEST_F(NamedChainsTest, DefaultsAndExpansionsAreNotPartOfTheIdempotencyHash) {
  start(options());
  NewTask task = named("", R"({"as": "w", "width": 300})");
  task.idempotency_key = "key";
  const Submitted first = submit(task);
  advance(0s);
  engine.reset();

  // The chain has another step and another default, and the node another deadline.
  ChainOptions changed = options("ok");
  changed.deadline = 2h;
  changed.templates["shrink"].parameters["width"].initial = 100;
  start(changed);
  task.parameters = R"({"width": "300", "as": "w"})";
  const Submitted again = submit(task);
  task.parameters = R"({"as": "w"})";
  const TaskResult<Submitted> other = engine->submit(task).await();

  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.task_id, first.task_id);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error->code, ErrorCode::kConflict) << "not giving a value is another request than giving it";
}

TEST_F(NamedChainsTest, AnEngineDoesNotStartWithAChainThatItCannotRun) {
  make_world();
  ChainOptions broken = options("nobody");
  broken.templates["shrink"].place = "cohort.yaml:7:3";
  broken.lease_clock = &world->clock;
  engine = std::make_unique<ChainEngine>(*store, world->executor, plugins, broken);

  const TaskResult<void> started = engine->start().await();

  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error->code, ErrorCode::kInvalid);
  EXPECT_TRUE(
      started.error->message.starts_with("cohort.yaml:7:3: chain 'shrink': step 1 ('nobody'): there is no plugin"))
      << started.error->message;
}

TEST_F(NamedChainsTest, ATaskThatGivesNoDeadlineGetsThatOfTheOptions) {
  start({.deadline = 10min});
  const Submitted given = submit(chain("t", {}));
  EXPECT_EQ(given.deadline, 10min);
  NewTask own = chain("own", {{.plugin = "sleep"}});
  own.deadline = 5min;
  EXPECT_EQ(submit(own).deadline, 5min);
  engine.reset();

  start({.deadline = Duration::max()});
  NewTask later = chain("later", {});
  later.pending = true;
  EXPECT_EQ(submit(later).deadline, Duration::max());
  advance(3h);
  store->remove_ended(24h * 3650, 100, [](const Result<std::uint64_t>&) {});
  EXPECT_EQ(get("later").state, ChainState::kPending) << "without a deadline it does not expire";
}

TEST_F(NamedChainsTest, AWaitBeyondTheDeadlineIsToldAtSubmit) {
  start({.deadline = 1min}, 1);
  for (int i = 0; i < 100; ++i)
    submit(chain("t" + std::to_string(i), {{.plugin = "sleep", .parameters = R"({"ms": 5000})"}}));
  advance(20s);

  EXPECT_GT(engine->estimated_wait("g").value_or(0s), 5min);
  const Submitted last = submit(chain("last", {{.plugin = "ok"}}));
  EXPECT_NE(last.warning.find("group 'g' has a backlog of about "), std::string::npos) << last.warning;
  EXPECT_EQ(submit(chain("idle", {{.plugin = "ok"}}, "idle")).warning, "");
  NewTask patient = chain("patient", {{.plugin = "ok"}});
  patient.deadline = 24h;
  EXPECT_EQ(submit(patient).warning, "");
}

TEST_F(NamedChainsTest, AFileThatTheNodeMayNotFetchIsRefused) {
  ChainOptions with_files;
  with_files.fetch = [](const std::string&, const std::filesystem::path& folder, const std::stop_token&) {
    return Result<std::filesystem::path>(folder);
  };
  with_files.check_file = [](const std::string& reference) -> Result<void> {
    if (reference == "file:///good") return {};
    return Error{ErrorCode::kInvalid, "it lies in none of the folders"};
  };
  start(with_files);
  NewTask task = chain("t", {{.plugin = "ok"}});
  task.file = "file:///etc/passwd";
  EXPECT_EQ(refusal(task), "'file': it lies in none of the folders");
  task.file = "file:///good";
  EXPECT_EQ(refusal(task), "");
}

}  // namespace
}  // namespace cohort
