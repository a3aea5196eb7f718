// What only the PostgreSQL store does: several stores on one schema, transactions of other programs, versions, damage.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "contract/postgres_world.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class PostgresStoreTest : public testing::Test {
 protected:
  PostgresStoreTest() { join(world_.store(), "boot-a"); }

  static NewTask task(const std::string& id, const std::string& group = "g") {
    return {.id = id, .group = group, .steps = {{.plugin = "p0"}, {.plugin = "p1"}}};
  }
  static Result<Submitted> submit(TaskStore& store, const NewTask& made) {
    const auto answer = wait<std::vector<Result<Submitted>>>([&](auto done) { store.submit({made}, std::move(done)); });
    return answer ? answer->at(0) : Result<Submitted>(answer.error());
  }
  static void join(TaskStore& store, const std::string& boot) {
    ASSERT_TRUE(wait<void>([&](auto done) { store.join({"node", boot}, 15s, std::move(done)); }));
  }
  static Result<ClaimAnswer> claim(TaskStore& store, const std::string& boot, const std::string& id,
                                   const std::string& group = "g") {
    return wait<ClaimAnswer>(
        [&](auto done) { store.claim({.id = id, .boot = boot, .group = group}, std::move(done)); });
  }
  Result<ClaimAnswer> claim(const std::string& id) { return claim(world_.store(), "boot-a", id); }
  static Result<ChainTask> get(TaskStore& store, const std::string& id) {
    return wait<ChainTask>([&](auto done) { store.get(id, std::move(done)); });
  }
  std::unique_ptr<PostgresStore> open(PostgresOptions options) {
    auto opened = PostgresStore::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error();
    return opened ? *std::move(opened) : nullptr;
  }
  PostgresSession& sql() { return world_.session(); }

  PostgresStoreWorld world_;
};

/// Waits for news of a store.
class News {
 public:
  explicit News(TaskStore& store)
      : watch_(store.watch([this](const StoreNews& news) {
          MutexLock lock(mutex_);
          for (const ReadyGroup& each : news.ready) ready_.insert(each.group);
          last_event_ = std::max(last_event_, news.last_event);
          changed_.notify_all();
        })) {}
  bool has_ready(const std::string& group) {
    MutexLock lock(mutex_);
    return ready_.contains(group);
  }
  void wait_for_ready(const std::string& group) {
    MutexLock lock(mutex_);
    while (!ready_.contains(group)) changed_.wait(mutex_);
  }
  void wait_for_event(std::uint64_t number) {
    MutexLock lock(mutex_);
    while (last_event_ < number) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::set<std::string> ready_ COHORT_GUARDED_BY(mutex_);
  std::uint64_t last_event_ COHORT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<void> watch_;
};

// --- cohort.submit()

TEST_F(PostgresStoreTest, ATaskOfAnotherTransactionRunsIfThatCommits) {
  News news(world_.store());
  sql().run("BEGIN");
  sql().run(R"(SELECT submit('g', '["p0", {"plugin": "p1", "parameters": {"n": 1}}]', id => 't'))");
  EXPECT_EQ(sql().last_error(), "");
  EXPECT_EQ(get(world_.store(), "t").error().code, ErrorCode::kNotFound);
  sql().run("COMMIT");

  news.wait_for_ready("g");
  const auto claimed = claim("c1");
  ASSERT_TRUE(claimed && claimed->task);
  EXPECT_EQ(claimed->task->request.steps[1].parameters, R"({"n": 1})");
  EXPECT_EQ(claimed->task->deadline_after, Duration(1h));

  // (Called with the name of the schema, as from a program with tables of its own.)
  PostgresSession elsewhere(postgres_url());
  elsewhere.run("SELECT " + world_.schema() + ".submit('g', '[\"p0\"]', id => 'elsewhere')");
  EXPECT_EQ(elsewhere.last_error(), "");
  EXPECT_EQ(get(world_.store(), "elsewhere")->state, ChainState::kReady);
  sql().run("BEGIN");
  sql().run("SELECT submit('g', '[\"p0\"]', id => 'never')");
  sql().run("ROLLBACK");
  EXPECT_EQ(get(world_.store(), "never").error().code, ErrorCode::kNotFound);
}

TEST_F(PostgresStoreTest, AKeyOfSqlIsTheKeyOfTheStore) {
  const std::string id = sql().run("SELECT submit('g', '[\"p0\", \"p1\"]', idempotency_key => 'k', tags => '{a,b}')");
  EXPECT_EQ(sql().run("SELECT submit('g', '[\"p0\", \"p1\"]', idempotency_key => 'k', tags => '{a,b}')"), id);
  NewTask same = task("other");
  same.idempotency_key = "k";
  same.tags = {"a", "b"};
  const auto again = submit(world_.store(), same);
  ASSERT_TRUE(again) << again.error();
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(again->task_id, id);
  same.payload = R"({"x":1})";
  EXPECT_EQ(submit(world_.store(), same).error().code, ErrorCode::kConflict);
}

TEST_F(PostgresStoreTest, SqlRefusesWhatTheStoreRefuses) {
  for (const char* call :
       {"submit('', '[\"p\"]')", "submit('g', '[]')", "submit('g', '{}')", "submit('g', '[{\"plugin\": \"\"}]')",
        "submit('g', '[{\"plugin\": \"p\", \"parameters\": 1}]')", "submit('g', '[\"p\"]', id => '@12')",
        "submit('g', '[\"p\"]', priority => 'urgent')", "submit('g', '[\"p\"]', tags => '{\"\"}')",
        "submit('g', '[\"p\"]', deadline => '0 s')", "submit(repeat('g', 1025), '[\"p\"]')"}) {
    sql().run(std::string("SELECT ") + call);
    EXPECT_NE(sql().last_error(), "") << call;
  }
}

// --- several stores on one schema

TEST_F(PostgresStoreTest, NewsOfOneNodeReachTheOther) {
  const auto other = open(world_.options());
  News news(*other);
  // (What comes before the other has begun to listen is told as "everything".)
  for (int i = 0; !news.has_ready("g"); ++i) ASSERT_TRUE(submit(world_.store(), task("t" + std::to_string(i))));
  const std::string odd = "two\nr 1 0 3 bad lines";
  ASSERT_TRUE(submit(world_.store(), task("odd", odd)));
  news.wait_for_ready(odd);
  EXPECT_FALSE(news.has_ready("bad"));
  ASSERT_TRUE(wait<ChainRow>([&](auto done) { world_.store().cancel("t0", "", std::move(done)); }));
  news.wait_for_event(1);
  const auto events = wait<std::vector<ChainEvent>>([&](auto done) { other->events(0, 10, std::move(done)); });
  ASSERT_EQ(events->size(), 1U);
  EXPECT_EQ(events->at(0).kind, EventKind::kCancelled);
}

TEST_F(PostgresStoreTest, ARepeatedClaimWhoseFirstIsStillOpenGetsTheSameTask) {
  ASSERT_TRUE(submit(world_.store(), task("t")));
  ASSERT_TRUE(submit(world_.store(), task("u")));
  PostgresSession first(postgres_url());
  first.run("SET search_path = " + world_.schema());
  first.run("BEGIN");
  first.run(
      "UPDATE tasks SET state = 2, owner = 'boot-a', epoch = 1, claim_id = 'c1', attempt = 1, attempt_open = true "
      "WHERE "
      "id = 't'");
  ASSERT_EQ(first.last_error(), "");
  std::thread commits([&] {
    // When the second claim waits for the first.
    while (sql().run(
               "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE tasks%'") ==
           "0") {
      std::this_thread::yield();
    }
    first.run("COMMIT");
  });
  const auto claimed = claim("c1");
  commits.join();
  ASSERT_TRUE(claimed && claimed->task) << claimed.error();
  EXPECT_EQ(claimed->task->id(), "t");
  EXPECT_EQ(get(world_.store(), "u")->state, ChainState::kReady);
}

TEST_F(PostgresStoreTest, AClaimWaitsForATakeOverOfItsBootAndGetsNothing) {
  ASSERT_TRUE(submit(world_.store(), task("t")));
  PostgresSession taker(postgres_url());
  taker.run("SET search_path = " + world_.schema());
  taker.run("BEGIN");
  taker.run("SELECT 1 FROM boots WHERE boot = 'boot-a' FOR UPDATE");
  taker.run("UPDATE boots SET dead = true WHERE boot = 'boot-a'");
  std::thread commits([&] {
    while (sql().run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
                     "'SELECT boot%'") == "0") {
      std::this_thread::yield();
    }
    taker.run("COMMIT");
  });
  const auto claimed = claim("c1");
  commits.join();
  EXPECT_EQ(claimed.error().code, ErrorCode::kStale);
  EXPECT_EQ(get(world_.store(), "t")->state, ChainState::kReady);
}

TEST_F(PostgresStoreTest, TasksOfABootThatNobodyKnowsAreSwept) {
  ASSERT_TRUE(submit(world_.store(), task("t")));
  ASSERT_TRUE(claim("c1")->task);
  join(world_.store(), "boot-b");
  sql().run("DELETE FROM boots WHERE boot = 'boot-a'");  // As after half a take-over, and its end by retention.
  const auto groups =
      wait<std::vector<std::string>>([&](auto done) { world_.store().take_over("boot-b", false, std::move(done)); });
  EXPECT_EQ(*groups, std::vector<std::string>{"g"});
  EXPECT_EQ(get(world_.store(), "t")->state, ChainState::kReady);
}

TEST_F(PostgresStoreTest, AReadyTaskThatAnotherHasLockedIsLookedAtAgainSoon) {
  ASSERT_TRUE(submit(world_.store(), task("t")));
  PostgresSession holder(postgres_url());
  holder.run("SET search_path = " + world_.schema());
  holder.run("BEGIN");
  holder.run("SELECT 1 FROM tasks WHERE id = 't' FOR UPDATE");
  const auto hidden = claim("c1");
  ASSERT_TRUE(hidden);
  EXPECT_FALSE(hidden->task);
  ASSERT_TRUE(hidden->next_in);
  EXPECT_LE(*hidden->next_in, 1s);
  holder.run("ROLLBACK");
  EXPECT_TRUE(claim("c2")->task);
}

// The statement that waits for the row has an older view of the other tables.
TEST_F(PostgresStoreTest, AWriteThatWaitedForTheRowSeesItsNewContext) {
  ASSERT_TRUE(submit(world_.store(), task("t")));
  const ChainTask claimed = *claim("c1")->task;
  PostgresSession other(postgres_url());
  other.run("SET search_path = " + world_.schema());
  other.run("BEGIN");
  other.run("UPDATE tasks SET writes = 1, step = 1, attempt = 0, attempt_open = false WHERE id = 't'");
  other.run("UPDATE bodies SET context = '{\"new\":1}' WHERE seq = (SELECT seq FROM tasks WHERE id = 't')");
  ASSERT_EQ(other.last_error(), "");
  std::thread commits([&] {
    while (
        sql().run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT 1 FROM "
                  "tasks%'") == "0") {
      std::this_thread::yield();
    }
    other.run("COMMIT");
  });
  const auto repeated = wait<ChainRow>([&](auto done) {
    world_.store().write({"t", "boot-a", claimed.epoch}, 1, Checkpoint{.step = 0, .context = "{\"new\":1}"},
                         std::move(done));
  });
  commits.join();
  ASSERT_TRUE(repeated) << repeated.error();
  EXPECT_EQ(repeated->context, "{\"new\":1}");
}

TEST_F(PostgresStoreTest, ARowThatAnotherProgramHoldsKeepsNoOtherCallWaiting) {
  ASSERT_TRUE(submit(world_.store(), task("held")));
  PostgresSession holder(postgres_url());
  holder.run("SET search_path = " + world_.schema());
  holder.run("BEGIN");
  holder.run("SELECT 1 FROM tasks WHERE id = 'held' FOR UPDATE");
  std::promise<Result<ChainRow>> cancelled;
  world_.store().cancel("held", "", [&](Result<ChainRow> row) { cancelled.set_value(std::move(row)); });
  auto answer = cancelled.get_future();
  // All of these are answered while that one waits.
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(submit(world_.store(), task("t" + std::to_string(i))));
  EXPECT_NE(answer.wait_for(0s), std::future_status::ready);
  holder.run("ROLLBACK");
  EXPECT_TRUE(answer.get());
}

TEST_F(PostgresStoreTest, ManyTasksOfManyCallsGoIn) {
  std::vector<std::future<bool>> calls;
  for (int i = 0; i < 8; ++i) {
    std::vector<NewTask> tasks;
    for (int k = 0; k < 1000; ++k) tasks.push_back(task(std::to_string(i) + "-" + std::to_string(k)));
    const auto answered = std::make_shared<std::promise<bool>>();
    calls.push_back(answered->get_future());
    world_.store().submit(std::move(tasks), [answered](const Result<std::vector<Result<Submitted>>>& made) {
      answered->set_value(made.ok() && std::ranges::all_of(*made, [](const auto& each) { return each.ok(); }));
    });
  }
  for (auto& each : calls) EXPECT_TRUE(each.get());
}

TEST_F(PostgresStoreTest, TwoKindsOfClaimsInOneBatchGetDifferentTasks) {
  for (const char* id : {"t", "u"}) ASSERT_TRUE(submit(world_.store(), task(id)));
  std::vector<std::future<std::string>> calls;
  for (int i = 0; i < 2; ++i) {
    ClaimRequest request{.id = "c" + std::to_string(i), .boot = "boot-a", .group = "g"};
    if (i == 1) request.without_plugins = {"nothing has this one"};
    const auto answered = std::make_shared<std::promise<std::string>>();
    calls.push_back(answered->get_future());
    world_.store().claim(request, [answered](const Result<ClaimAnswer>& found) {
      answered->set_value(found && found->task ? found->task->id() : "");
    });
  }
  const std::string first = calls[0].get();
  const std::string second = calls[1].get();
  EXPECT_TRUE(first.empty() || first != second) << first;
}

TEST_F(PostgresStoreTest, AnEmptyClaimWritesNothing) {
  const auto written = [&] { return sql().run("SELECT pg_current_wal_insert_lsn()"); };
  sql().run("CHECKPOINT");
  ASSERT_TRUE(claim("warm"));
  std::string before;
  int unchanged = 0;
  for (int i = 0; i < 20; ++i) {
    before = written();
    ASSERT_TRUE(claim("c" + std::to_string(i)));
    if (written() == before) ++unchanged;
  }
  EXPECT_GT(unchanged, 0) << "other tests write too, but not all the time";
}

// --- versions

TEST_F(PostgresStoreTest, TwoVersionsRunSideBySide) {
  PostgresOptions options = world_.options();
  options.version = 2;
  const auto newer = open(options);
  join(*newer, "boot-n");
  ASSERT_TRUE(submit(*newer, task("new")));
  ASSERT_TRUE(submit(world_.store(), task("old")));

  EXPECT_EQ(claim("c1")->task->id(), "old");
  EXPECT_FALSE(claim("c2")->task);
  EXPECT_EQ(get(world_.store(), "new").error().code, ErrorCode::kConflict);
  EXPECT_EQ(wait<ChainRow>([&](auto done) { world_.store().cancel("new", "", std::move(done)); }).error().code,
            ErrorCode::kConflict);
  EXPECT_EQ(claim(*newer, "boot-n", "c3")->task->id(), "new");
}

TEST_F(PostgresStoreTest, TablesThatAreTooNewOrMissingAreRefused) {
  sql().run("UPDATE versions SET version = 7, oldest_program = 6");
  const auto old = PostgresStore::open(world_.options());
  EXPECT_EQ(old.error().code, ErrorCode::kInvalid);
  EXPECT_NE(old.error().message.find("Use a newer version of Cohort"), std::string::npos) << old.error();
  sql().run("UPDATE versions SET version = 1, oldest_program = 1");

  PostgresOptions elsewhere = world_.options();
  elsewhere.schema = world_.schema() + "_missing";
  elsewhere.migrate = false;
  const auto missing = PostgresStore::open(elsewhere);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalid);
  EXPECT_NE(missing.error().message.find("migrate"), std::string::npos) << missing.error();
}

// The node needs no more than to read and write rows; the owner makes the tables.
TEST_F(PostgresStoreTest, ANodeRunsWithTheRightsThatTheDocumentGives) {
  const std::string role = "node_" + world_.schema();
  sql().run("CREATE ROLE " + role + " LOGIN");
  sql().run("GRANT USAGE ON SCHEMA " + world_.schema() + " TO " + role);
  sql().run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + world_.schema() + " TO " + role);
  sql().run("GRANT USAGE ON ALL SEQUENCES IN SCHEMA " + world_.schema() + " TO " + role);
  ASSERT_EQ(sql().last_error(), "");
  PostgresOptions options = world_.options();
  options.migrate = false;
  options.url.replace(options.url.find("cohort@"), 7, role + "@");
  {
    const auto node = open(options);
    join(*node, "boot-n");
    ASSERT_TRUE(submit(*node, task("t")));
    EXPECT_EQ(claim(*node, "boot-n", "c1")->task->id(), "t");
  }
  sql().run("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

// --- damage, errors

TEST_F(PostgresStoreTest, ADamagedRowIsPoisonAndStopsNoOther) {
  ASSERT_TRUE(submit(world_.store(), task("bad")));
  ASSERT_TRUE(submit(world_.store(), task("good")));
  sql().run("UPDATE bodies SET request = '{' WHERE seq = (SELECT seq FROM tasks WHERE id = 'bad')");
  auto claimed = claim("c1");
  for (int i = 0; claimed && !claimed->task && i < 100; ++i) claimed = claim("c1");
  ASSERT_TRUE(claimed && claimed->task);
  EXPECT_EQ(claimed->task->id(), "good");
  EXPECT_EQ(get(world_.store(), "bad")->state, ChainState::kPoison);
  const auto letter = wait<DeadLetter>([&](auto done) { world_.store().dead_letter("bad", std::move(done)); });
  ASSERT_TRUE(letter);
  EXPECT_NE(letter->original.find("\"request\":\"{\""), std::string::npos) << letter->original;
}

TEST_F(PostgresStoreTest, ACallThatFailsForGoodFailsAlone) {
  sql().run("ALTER TABLE tasks ADD CONSTRAINT no_such CHECK (id <> 'forbidden')");
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  std::atomic<int> internal{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        const bool is_bad = i == 0 && k == 10;
        const auto made =
            submit(world_.store(), task(is_bad ? "forbidden" : std::to_string(i) + "-" + std::to_string(k)));
        if (made) ++good;
        if (!made && made.error().code == ErrorCode::kInternal) ++internal;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(good, 8 * 20 - 1);
  EXPECT_EQ(internal, 1);
}

TEST(PostgresOpenTest, APoolerIsRefused) {
  const TemporaryFolder folder;
  const std::string said = (folder.path() / "url").string();
  FILE* const pooler = ::popen(("exec " COHORT_SERVERS "/pgbouncer.sh " + postgres_url() + " > " + said).c_str(), "w");
  std::string url;
  for (bool is_whole = false; !is_whole; std::this_thread::yield()) {
    std::ifstream file(said);
    is_whole = std::getline(file, url) && !file.eof();
  }
  const auto refused = PostgresStore::open({.url = url});
  ::pclose(pooler);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << refused.error();
  EXPECT_NE(refused.error().message.find("connect to the server itself"), std::string::npos) << refused.error();
}

TEST(PostgresOpenTest, ErrorsSayWhatToDoAndKeepSecrets) {
  const auto away = PostgresStore::open({.url = "postgres://cohort:hunter2@127.0.0.1:1/cohort"});
  EXPECT_EQ(away.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(away.error().message.find("hunter2"), std::string::npos) << away.error();
  EXPECT_EQ(PostgresStore::open({}).error().code, ErrorCode::kInvalid);
  const auto no_file = PostgresStore::open({.url = postgres_url(), .password_file = "/no/such/file"});
  EXPECT_EQ(no_file.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(place_of({.url = "postgres://me:secret@db.example.org:5433/jobs?sslmode=require"}),
            "db.example.org:5433/jobs, schema cohort");
}

}  // namespace
}  // namespace cohort
