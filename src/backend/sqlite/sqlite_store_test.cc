// What is true of the embedded store alone; what it shares with others is in tests/contract.

#include "cohort/backend/sqlite/sqlite_store.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "backend/sqlite/database.h"
#include "backend/sqlite/store_test_fixture.h"
#include "cohort/base/failpoint.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class SqliteStoreTest : public testing::Test {
 protected:
  Result<std::unique_ptr<SqliteStore>> open(const std::string& who = "a test") {
    return SqliteStore::open({.folder = folder_.path(), .who = who});
  }
  static Result<Submitted> submit(SqliteStore& store, const std::string& id) {
    const NewTask task{.id = id, .group = "g", .steps = {{.plugin = "p"}}};
    auto answer = wait<std::vector<Result<Submitted>>>([&](auto done) { store.submit({task}, std::move(done)); });
    return answer ? answer->at(0) : Result<Submitted>(answer.error());
  }
  static bool has(SqliteStore& store, const std::string& id) {
    return wait<ChainTask>([&](auto done) { store.get(id, std::move(done)); }).ok();
  }
  void on_file(const char* sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  [[nodiscard]] std::string file() const { return (folder_.path() / "cohort.db").string(); }

  TemporaryFolder folder_;
};

TEST_F(SqliteStoreTest, OneAtATimeAndItSaysWho) {
  auto first = open("cohort serve");
  ASSERT_TRUE(first);
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid()) + " (cohort serve)"), std::string::npos)
      << second.error().message;
  first->reset();
  EXPECT_TRUE(open());
}

TEST_F(SqliteStoreTest, AnotherProcessIsRefusedToo) {
  auto first = open();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(open().ok() ? 1 : 42);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST_F(SqliteStoreTest, AFullDiskLosesNothingThatWasAcknowledged) {
  auto store = std::move(*open());
  ASSERT_TRUE(submit(*store, "before"));
  {
    const Failpoint full("store.commit", [] { return true; });
    const auto refused = submit(*store, "during");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(refused.error().message.find("the disk is full"), std::string::npos);
  }
  EXPECT_TRUE(submit(*store, "after"));
  store = nullptr;
  store = std::move(*open());
  EXPECT_TRUE(has(*store, "before"));
  EXPECT_FALSE(has(*store, "during"));
  EXPECT_TRUE(has(*store, "after"));
}

// A process that may write no more: every write of the file system fails from some size on.
TEST_F(SqliteStoreTest, WritesThatReallyFailLoseNothingEither) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto store = open();
    if (!store) ::_exit(0);
    for (int i = 0; i < 200; ++i) {
      const NewTask task{.id = "t" + std::to_string(i),
                         .group = "g",
                         .payload = '"' + std::string(20'000, 'x') + '"',
                         .steps = {{.plugin = "p"}}};
      const auto answer =
          wait<std::vector<Result<Submitted>>>([&](auto done) { (*store)->submit({task}, std::move(done)); });
      if (!answer) ::_exit(answer.error().code == ErrorCode::kUnavailable ? i : 0);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  const int acknowledged = WEXITSTATUS(status);
  ASSERT_GT(acknowledged, 5) << "it failed, and as it should, after some that did not";
  auto store = std::move(*open());
  for (int i = 0; i < acknowledged; ++i) EXPECT_TRUE(has(*store, "t" + std::to_string(i))) << i;
  EXPECT_TRUE(submit(*store, "after"));
}

TEST_F(SqliteStoreTest, AClaimThatWasRolledBackIsFreeAgain) {
  auto store = std::move(*open());
  ASSERT_TRUE(submit(*store, "t"));
  ASSERT_TRUE(wait<void>([&](auto done) { store->join({.node = "n", .boot = "b"}, 1h, std::move(done)); }));
  const auto claim = [&](const char* id) {
    return wait<ClaimAnswer>([&](auto done) { store->claim({.id = id, .boot = "b", .group = "g"}, std::move(done)); });
  };
  {
    const Failpoint full("store.commit", [] { return true; });
    EXPECT_FALSE(claim("one"));
  }
  const auto claimed = claim("two");
  ASSERT_TRUE(claimed->task);
  EXPECT_EQ(claimed->task->epoch, 1U);
}

TEST_F(SqliteStoreTest, AnotherProgramThatLocksItIsNamedAsTheCause) {
  auto store = std::move(*open());
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto refused = submit(*store, "t");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("locked"), std::string::npos) << refused.error().message;
  sqlite3_close(other);
  EXPECT_TRUE(submit(*store, "t"));
}

TEST_F(SqliteStoreTest, ADamagedFileIsSaidToBeOne) {
  {
    auto store = std::move(*open());
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(submit(*store, "t" + std::to_string(i)));
  }
  std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
  for (int page = 20; page < 30; ++page) {
    bytes.seekp(page * 4096);
    bytes.write("not what was written here", 25);
  }
  bytes.close();
  auto store = open();
  Result<void> verdict;
  if (store) {  // What is whole can still be read.
    verdict = wait<void>([&](auto done) { (*store)->check_integrity(std::move(done)); });
  } else {
    verdict = store.error();
  }
  ASSERT_FALSE(verdict);
  EXPECT_NE(verdict.error().message.find("damaged"), std::string::npos) << verdict.error().message;
}

TEST_F(SqliteStoreTest, WhatIsNotOursIsLeftAlone) {
  std::ofstream(file()) << "this is a text, and long enough to be taken for something else";
  EXPECT_EQ(open().error().code, ErrorCode::kInvalid);
  std::filesystem::remove(file());
  on_file("CREATE TABLE somebodys (x)");
  EXPECT_EQ(open().error().code, ErrorCode::kInvalid);
  std::filesystem::remove(file());
  std::filesystem::create_directory(file());
  EXPECT_EQ(open().error().code, ErrorCode::kUnavailable);
}

TEST_F(SqliteStoreTest, ANewerSchemaIsRefused) {
  ASSERT_TRUE(open());
  on_file("PRAGMA user_version = 99");
  const auto newer = open();
  EXPECT_EQ(newer.error().code, ErrorCode::kInvalid);
  EXPECT_NE(newer.error().message.find("newer version"), std::string::npos);
}

TEST_F(SqliteStoreTest, ErrorsSayWhatToDo) {
  const auto text_of = [](int result) { return sqlite::Failure(result, "detail").to_error("x.db").message; };
  EXPECT_NE(text_of(SQLITE_READONLY).find("check owner and permissions"), std::string::npos);
  EXPECT_NE(text_of(SQLITE_FULL).find("free some space"), std::string::npos);
  EXPECT_NE(text_of(SQLITE_CORRUPT).find("restore a backup"), std::string::npos);
  EXPECT_NE(text_of(SQLITE_IOERR_WRITE).find("reading or writing failed"), std::string::npos);
}

TEST_F(SqliteStoreTest, AFolderThatCannotBeWritten) {
  const auto refused = SqliteStore::open({.folder = "/proc/cohort"});
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

TEST_F(SqliteStoreTest, ABackupWhileItRunsIsWhole) {
  auto store = std::move(*open());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(submit(*store, "before" + std::to_string(i)));
  std::atomic<bool> ends{false};
  std::thread busy([&] {
    for (int i = 0; !ends; ++i) EXPECT_TRUE(submit(*store, "while" + std::to_string(i)));
  });
  const TemporaryFolder elsewhere;
  const auto backup = [&](const std::filesystem::path& to) {
    return wait<void>([&](auto done) { store->backup(to, std::move(done)); });
  };
  EXPECT_TRUE(backup(elsewhere.path() / "cohort.db"));
  EXPECT_EQ(backup(elsewhere.path() / "cohort.db").error().code, ErrorCode::kExists);
  ends = true;
  busy.join();
  auto copy = std::move(*SqliteStore::open({.folder = elsewhere.path()}));
  EXPECT_TRUE(wait<void>([&](auto done) { copy->check_integrity(std::move(done)); }));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(has(*copy, "before" + std::to_string(i)));
}

TEST_F(SqliteStoreTest, TooManyCallsAtOnceAreRejected) {
  auto store = std::move(*SqliteStore::open({.folder = folder_.path(), .max_queued = 3}));
  std::atomic<bool> holds{true};
  const Failpoint slow("store.commit", [&] {
    while (holds) std::this_thread::yield();
    return false;
  });
  std::atomic<int> rejected{0};
  std::atomic<int> answered{0};
  for (int i = 0; i < 10; ++i) {
    store->set_cursor("c", 1, [&](const Result<void>& set) {
      if (!set && set.error().code == ErrorCode::kRejected) ++rejected;
      ++answered;
    });
  }
  EXPECT_GE(rejected, 4) << "three are being written, three wait";
  holds = false;
  while (answered < 10) std::this_thread::yield();
}

TEST_F(SqliteStoreTest, EveryCallIsAnsweredWhenItCloses) {
  std::atomic<int> answered{0};
  {
    auto store = std::move(*open());
    for (int i = 0; i < 200; ++i) store->set_cursor("c", 1, [&](const Result<void>&) { ++answered; });
  }
  EXPECT_EQ(answered, 200);
}

TEST_F(SqliteStoreTest, AListLooksAtABoundedNumberOfRows) {
  auto store =
      std::move(*SqliteStore::open({.folder = folder_.path(), .synchronous = SqliteOptions::Synchronous::kOff}));
  std::vector<NewTask> tasks;
  for (int i = 0; i < 12'000; ++i) {
    tasks.push_back({.id = "t" + std::to_string(i), .group = i == 0 ? "rare" : "g", .steps = {{.plugin = "p"}}});
  }
  tasks.front().tags = {"needle"};
  ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store->submit(tasks, std::move(done)); }));
  const auto list = [&](TaskFilter filter) {
    return *wait<TaskPage>([&](auto done) { store->list(std::move(filter), std::move(done)); });
  };
  int pages = 0;
  std::vector<ChainTask> found;
  for (std::uint64_t before = 0; pages == 0 || before != 0; ++pages) {
    const TaskPage page = list({.tag = "needle", .before = before});
    found.insert(found.end(), page.tasks.begin(), page.tasks.end());
    before = page.next;
  }
  EXPECT_EQ(pages, 3) << "a page may be empty and lead on";
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id(), "t0");
  const TaskPage rare = list({.group = "rare"});
  EXPECT_EQ(rare.tasks.size(), 1U) << "a group has an index";
  EXPECT_EQ(rare.next, 0U);
}

}  // namespace
}  // namespace cohort
