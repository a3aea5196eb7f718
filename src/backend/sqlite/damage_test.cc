// What the store does when its file is not as it left it: damaged rows, lost files, a second writer, a damaged page.

#include <gtest/gtest.h>

#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/sqlite/database.h"
#include "backend/sqlite/folder_lock.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/store_test_fixture.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/log.h"
#include "cohort/base/mutex.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

class SqliteDamageTest : public testing::Test {
 protected:
  Result<std::unique_ptr<SqliteStore>> try_open() { return SqliteStore::open({.folder = folder_.path()}); }
  void open() {
    auto opened = try_open();
    ASSERT_TRUE(opened) << opened.error();
    store_ = *std::move(opened);
    ++boots_;
    ASSERT_TRUE(wait<void>([&](auto done) { store_->join({"node", boot()}, 24h, std::move(done)); }));
  }
  [[nodiscard]] std::string boot() const { return "boot-" + std::to_string(boots_); }
  void submit(const std::string& id, const std::string& group = "g") {
    const NewTask task{.id = id, .group = group, .steps = {{.plugin = "p"}, {.plugin = "q"}}};
    const auto answer =
        wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({task}, std::move(done)); });
    ASSERT_TRUE(answer && answer->at(0));
  }
  std::optional<ChainTask> claim(const std::string& group = "g") {
    auto answer = wait<ClaimAnswer>([&](auto done) {
      store_->claim({.id = "c" + std::to_string(++claims_), .boot = boot(), .group = group}, std::move(done));
    });
    EXPECT_TRUE(answer) << answer.error();
    return answer ? answer->task : std::nullopt;
  }
  Result<ChainTask> get(const std::string& id) {
    return wait<ChainTask>([&](auto done) { store_->get(id, std::move(done)); });
  }
  Result<DeadLetter> letter(const std::string& id) {
    return wait<DeadLetter>([&](auto done) { store_->dead_letter(id, std::move(done)); });
  }
  std::vector<GroupControl> controls() {
    return *wait<std::vector<GroupControl>>([&](auto done) { store_->controls("", 100, std::move(done)); });
  }
  StoreStats stats() {
    return *wait<StoreStats>([&](auto done) { store_->stats(std::move(done)); });
  }
  void on_file(const std::string& sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  int count_on_file(const char* sql) { return static_cast<int>(sqlite::Database(file(), true, {}).value(sql)); }
  /// What a hostile operator does while the node is down.
  void damage(const std::string& sql) {
    store_.reset();
    on_file(sql);
    open();
  }
  [[nodiscard]] std::string file() const { return (folder_.path() / "cohort.db").string(); }

  TemporaryFolder folder_;
  std::unique_ptr<SqliteStore> store_;
  int boots_ = 0;
  int claims_ = 0;
};

TEST_F(SqliteDamageTest, AnUnreadableBodyMakesItsTaskPoisonAndStopsNobody) {
  open();
  for (const char* id : {"a", "broken", "c"}) submit(id);
  damage("UPDATE bodies SET request = '{broken' WHERE seq = 2");
  EXPECT_EQ(claim()->id(), "a");
  EXPECT_EQ(claim()->id(), "c");
  EXPECT_EQ(get("broken")->state, ChainState::kPoison);
  const auto kept = letter("broken");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->state, ChainState::kPoison);
  EXPECT_EQ(nlohmann::json::parse(kept->original)["request"], "{broken") << "the row is kept";
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kPoison)], 1U);
  EXPECT_EQ(stats().damaged, 1U);
  const auto page = wait<TaskPage>([&](auto done) { store_->list({}, std::move(done)); });
  EXPECT_EQ(page->tasks.size(), 3U);
}

TEST_F(SqliteDamageTest, AlsoInAPausedGroupAndWithoutAnybodyAsking) {
  open();
  submit("t");
  ASSERT_TRUE(wait<void>([&](auto done) { store_->pause_group("g", true, std::move(done)); }));
  damage("UPDATE tasks SET state = 100000000");
  while (!letter("t")) std::this_thread::yield();  // The rows are looked at in the background.
  EXPECT_EQ(get("t")->state, ChainState::kPoison);
}

TEST_F(SqliteDamageTest, ATaskWithADamagedIdIsNamedByItsSequenceNumber) {
  open();
  submit("t");
  damage("UPDATE tasks SET id = CAST(x'ff00fe' AS TEXT)");
  const auto found = get("@1");
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(found->state, ChainState::kPoison);
  EXPECT_EQ(found->id(), "@1");
  const auto kept = letter("@1");
  ASSERT_TRUE(kept);
  EXPECT_EQ(nlohmann::json::parse(kept->original)["id"]["hex"], "ff00fe");
}

TEST_F(SqliteDamageTest, EveryColumnIsLookedAtBeforeItIsUsed) {
  const auto columns = [&] {
    std::vector<std::string> names;
    sqlite3* database = nullptr;
    sqlite3_open(file().c_str(), &database);
    sqlite3_exec(
        database,
        "SELECT name FROM pragma_table_info('tasks') WHERE name NOT IN ('seq', 'request_hash', 'format', 'plugin', "
        "'outline')",
        [](void* to, int, char** values, char**) {
          static_cast<std::vector<std::string>*>(to)->emplace_back(values[0]);
          return 0;
        },
        &names, nullptr);
    sqlite3_close(database);
    return names;
  };
  open();
  submit("warm-up");
  int number = 1;
  for (const std::string& column : columns()) {
    const std::string id = "t" + std::to_string(++number);
    submit(id, "g-" + column);
    damage("UPDATE tasks SET " + column + " = x'00ff01' WHERE seq = " + std::to_string(number));
    const auto found = get("@" + std::to_string(number));
    ASSERT_TRUE(found) << column << ": " << found.error();
    EXPECT_EQ(found->state, ChainState::kPoison) << column;
  }
  EXPECT_EQ(claim()->id(), "warm-up");
}

TEST_F(SqliteDamageTest, ARowOfANewerProgramIsLeftAlone) {
  open();
  submit("new");
  submit("old");
  damage("UPDATE tasks SET format = 99 WHERE seq = 1");
  EXPECT_EQ(claim()->id(), "old");
  EXPECT_FALSE(claim());
  EXPECT_EQ(get("new").error().code, ErrorCode::kConflict);
  EXPECT_NE(get("new").error().message.find("newer version"), std::string::npos);
  EXPECT_FALSE(letter("new")) << "it is not poison";
  EXPECT_FALSE(wait<ChainRow>([&](auto done) { store_->cancel("new", "", std::move(done)); }));
  damage("UPDATE tasks SET format = 2 WHERE seq = 1");
  EXPECT_EQ(claim()->id(), "new") << "nothing was changed of it";
}

TEST_F(SqliteDamageTest, OtherRowsOfANewerProgramAreLeftAloneToo) {
  open();
  const NewTask ended{.id = "t", .group = "g"};
  ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({ended}, std::move(done)); }));
  ASSERT_TRUE(wait<void>([&](auto done) { store_->pause_group("h", true, std::move(done)); }));
  submit("in-h", "h");
  damage(
      "UPDATE events SET format = 99, kind = x'01', at = 0; UPDATE groups SET format = 99, paused_total = 'long';"
      "INSERT INTO dead_letters VALUES ('z', 'g', '', 77, '', '', 0, 0, 0, '', 0, '[]', '', 99)");
  EXPECT_TRUE(wait<std::vector<ChainEvent>>([&](auto done) { store_->events(0, 10, std::move(done)); })->empty());
  EXPECT_TRUE(controls().empty());
  EXPECT_FALSE(letter("z"));
  submit("in-h-2", "h");
  EXPECT_FALSE(wait<void>([&](auto done) { store_->pause_group("h", false, std::move(done)); }));
  EXPECT_FALSE(wait<void>([&](auto done) { store_->set_limits("h", "{}", std::move(done)); }));
  EXPECT_FALSE(wait<void>([&](auto done) { store_->discard_dead_letter("z", std::move(done)); }));
  ASSERT_TRUE(wait<std::uint64_t>([&](auto done) { store_->remove_ended(Duration::zero(), 100, std::move(done)); }));
  EXPECT_EQ(stats().damaged, 0U);
  store_.reset();
  EXPECT_EQ(count_on_file("SELECT (SELECT count(*) FROM events WHERE format = 99) > 0"), 1);
  EXPECT_EQ(count_on_file("SELECT count(*) FROM groups WHERE format = 99 AND paused_total = 'long'"), 1);
  EXPECT_EQ(count_on_file("SELECT count(*) FROM dead_letters WHERE format = 99"), 1);
}

TEST_F(SqliteDamageTest, RowsOfANewerProgramKeepNobodyWaiting) {
  open();
  const auto submit_later = [&](const std::string& id) {
    NewTask task{.id = id, .group = "g", .steps = {{.plugin = "p"}}};
    task.start_at = system_wall_clock().now() + 1h;
    ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({task}, std::move(done)); }));
  };
  for (int i = 0; i < 150; ++i) submit_later("new-" + std::to_string(i));
  submit_later("due");
  damage(
      "UPDATE tasks SET due_at = strftime('%s', 'now') * 1000000 - 1000000; UPDATE tasks SET format = 99 WHERE id LIKE "
      "'new-%'");
  const auto task = claim();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->id(), "due");
  const auto answer = wait<ClaimAnswer>(
      [&](auto done) { store_->claim({.id = "next", .boot = boot(), .group = "g"}, std::move(done)); });
  EXPECT_FALSE(answer->next_in) << "nothing of this program is due";
}

TEST_F(SqliteDamageTest, AStrayBodyBecomesNobodysWork) {
  open();
  submit("a");
  submit("b");
  damage("UPDATE bodies SET seq = 3, request = replace(request, '\"p\"', '\"stray\"') WHERE seq = 2");
  submit("c");
  EXPECT_EQ(get("c")->request.steps[0].plugin, "p");
  EXPECT_EQ(get("b")->state, ChainState::kPoison);
}

TEST_F(SqliteDamageTest, ImpossibleNumbersOfEventsStopNobody) {
  open();
  submit("a");
  const NewTask ended{.id = "t", .group = "g"};
  ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({ended}, std::move(done)); }));
  damage("UPDATE events SET seq = 9223372036854775807");
  EXPECT_TRUE(wait<ChainRow>([&](auto done) { store_->cancel("a", "", std::move(done)); }));
  damage("UPDATE sqlite_sequence SET seq = 9223372036854775807");
  submit("b");
  EXPECT_TRUE(wait<ChainRow>([&](auto done) { store_->cancel("b", "", std::move(done)); }));
}

TEST_F(SqliteDamageTest, ADamagedPauseIsNoneForAnybody) {
  open();
  submit("t");
  ASSERT_TRUE(wait<void>([&](auto done) { store_->pause_group("g", true, std::move(done)); }));
  damage("UPDATE groups SET paused_total = -5");
  EXPECT_TRUE(controls().empty());
  EXPECT_EQ(stats().damaged, 1U);
  EXPECT_TRUE(claim());
}

TEST_F(SqliteDamageTest, CountsAreRightAfterDamage) {
  open();
  submit("a");
  submit("b", "h");
  damage("UPDATE tasks SET state = 2, grp = 'h' WHERE id = 'a'");  // Claimed by nobody: its row cannot be.
  while (!letter("a")) std::this_thread::yield();
  EXPECT_EQ(wait<GroupCounts>([&](auto done) { store_->group_count("g", std::move(done)); })->ready, 0U);
  EXPECT_EQ(wait<GroupCounts>([&](auto done) { store_->group_count("h", std::move(done)); })->ready, 1U);
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kReady)], 1U);
  damage("UPDATE counts SET n = 500 WHERE grp = 'h'");
  EXPECT_EQ(wait<GroupCounts>([&](auto done) { store_->group_count("h", std::move(done)); })->ready, 1U);
}

// They cost the same however many rows there are: the rows are not even asked.
TEST_F(SqliteDamageTest, CountsAreReadWithoutTheTasks) {
  open();
  for (const char* id : {"a", "b", "c"}) submit(id);
  damage("DELETE FROM tasks; DELETE FROM bodies");
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kReady)], 3U);
  const auto groups = wait<std::vector<GroupCounts>>([&](auto done) { store_->group_counts("", 10, std::move(done)); });
  ASSERT_EQ(groups->size(), 1U);
  EXPECT_EQ(groups->front().ready, 3U);
}

TEST_F(SqliteDamageTest, AListDoesNotReadLargeParameters) {
  open();
  const NewTask task{
      .id = "t", .group = "g", .steps = {{.plugin = "p", .parameters = "[\"" + std::string(5000, 'x') + "\"]"}}};
  ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({task}, std::move(done)); }));
  store_.reset();
  on_file("UPDATE tasks SET state = 6, ended_at = 1; UPDATE bodies SET request = '{broken'");
  open();
  const auto page = wait<TaskPage>([&](auto done) { store_->list({}, std::move(done)); });
  ASSERT_EQ(page->tasks.size(), 1U);
  EXPECT_EQ(page->tasks[0].state, static_cast<ChainState>(6)) << page->tasks[0].error;
  EXPECT_EQ(page->tasks[0].request.steps[0].plugin, "p");
}

TEST_F(SqliteDamageTest, ADamagedOutlineIsReadFromTheRequest) {
  open();
  submit("t");
  damage("UPDATE tasks SET outline = '{broken'");
  const auto page = wait<TaskPage>([&](auto done) { store_->list({}, std::move(done)); });
  EXPECT_EQ(page->tasks.at(0).state, ChainState::kReady);
  EXPECT_TRUE(claim());
}

struct CountingLog final : LogSink {
  void write(LogLevel, std::string_view, std::string_view message, std::span<const LogField> fields) override {
    MutexLock lock(mutex);
    lines.emplace_back(message);
    for (const LogField& each : fields) lines.back() += " " + each.value;
  }
  int count(const std::string& part) {
    MutexLock lock(mutex);
    return static_cast<int>(
        std::ranges::count_if(lines, [&](const std::string& each) { return each.find(part) != std::string::npos; }));
  }
  Mutex mutex;
  std::vector<std::string> lines COHORT_GUARDED_BY(mutex);
};

TEST_F(SqliteDamageTest, OtherDamagedRowsAreSkippedCountedAndLoggedOnce) {
  open();
  for (const char* id : {"a", "b", "c"}) {
    const NewTask done{.id = id, .group = "g"};
    ASSERT_TRUE(wait<std::vector<Result<Submitted>>>([&](auto answer) { store_->submit({done}, std::move(answer)); }));
  }
  ASSERT_TRUE(wait<void>([&](auto done) { store_->pause_group("h", true, std::move(done)); }));
  ASSERT_TRUE(wait<void>([&](auto done) { store_->set_limits("i", "{}", std::move(done)); }));
  static CountingLog log;
  set_log_sink(&log, LogLevel::kError);
  damage(
      "UPDATE events SET at = 'never' WHERE seq = 1;"
      "INSERT INTO dead_letters (task_id, grp, message_id, state, reason, plugin, step, attempts, failed_at, node, "
      "progress, log, original) VALUES ('z', 'g', '', 77, '', '', 0, 0, 0, '', 0, '[]', '');"
      "UPDATE groups SET paused_since = 'yes', paused_total = -5 WHERE grp = 'h'; UPDATE groups SET version = 'new' "
      "WHERE grp = 'i'");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(wait<std::vector<ChainEvent>>([&](auto done) { store_->events(0, 10, std::move(done)); })->size(), 2U);
    EXPECT_TRUE(
        wait<std::vector<DeadLetter>>([&](auto done) { store_->dead_letters("", 10, std::move(done)); })->empty());
    submit("in-h-" + std::to_string(i), "h");
    submit("in-i-" + std::to_string(i), "i");
    EXPECT_TRUE(controls().empty());
  }
  set_log_sink(nullptr);
  EXPECT_EQ(stats().damaged, 4U);
  for (const char* table : {"events 1", "groups i", "dead_letters z", "groups h"})
    EXPECT_EQ(log.count(table), 1) << table;
  EXPECT_TRUE(claim("h"));
}

TEST_F(SqliteDamageTest, ADamagedBootKeepsNoTaskClaimed) {
  open();
  submit("t");
  ASSERT_TRUE(claim());
  damage("UPDATE boots SET dead = 'perhaps', lease_until = x'00'");
  const auto freed =
      wait<std::vector<std::string>>([&](auto done) { store_->take_over(boot(), true, std::move(done)); });
  EXPECT_EQ(*freed, std::vector<std::string>{"g"});
  EXPECT_TRUE(claim());
}

// --- the files

TEST_F(SqliteDamageTest, AReplacedOrRemovedFileIsNoticed) {
  for (const bool is_removed : {true, false}) {
    open();
    submit(is_removed ? "a" : "b");
    EXPECT_FALSE(store_->fault());
    std::filesystem::rename(file(), file() + ".away");
    if (!is_removed) std::ofstream(file()) << "something else";
    const NewTask task{.id = "late", .group = "g", .steps = {{.plugin = "p"}}};
    EXPECT_FALSE(wait<std::vector<Result<Submitted>>>([&](auto done) { store_->submit({task}, std::move(done)); }));
    ASSERT_TRUE(store_->fault());
    EXPECT_NE(store_->fault()->message.find(is_removed ? "was removed" : "was replaced"), std::string::npos);
    std::filesystem::rename(file() + ".away", file());
    EXPECT_TRUE(store_->fault()) << "until the next start";
    store_.reset();
  }
}

TEST_F(SqliteDamageTest, ALostLogIsAnErrorWithAWayOut) {
  open();
  submit("t");
  // As after a kill: the files of a store that is in use, without its log.
  const TemporaryFolder copy;
  std::filesystem::copy_file(file(), copy.path() / "cohort.db");
  const auto refused = SqliteStore::open({.folder = copy.path()});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--accept-lost-log"), std::string::npos) << refused.error();
  ASSERT_FALSE(SqliteStore::open({.folder = copy.path()})) << "not only the first time";
  EXPECT_TRUE(SqliteStore::open({.folder = copy.path(), .accept_lost_log = true}));
  EXPECT_TRUE(SqliteStore::open({.folder = copy.path()}));

  const TemporaryFolder without;
  std::filesystem::copy_file(file() + "-wal", without.path() / "cohort.db-wal");
  EXPECT_FALSE(SqliteStore::open({.folder = without.path()})) << "a log without its file";
}

// As after a kill: somebody makes a backup of a store that is not open. Its log must still be there.
TEST_F(SqliteDamageTest, ABackupOfADeadNodesStoreLeavesItsLog) {
  open();
  submit("t");
  const TemporaryFolder dead;
  for (const char* name : {"cohort.db", "cohort.db-wal"}) {
    std::filesystem::copy_file(folder_.path() / name, dead.path() / name);
  }
  ASSERT_TRUE(SqliteStore::backup_folder(dead.path(), dead.path() / "copy.db"));
  const auto opened = SqliteStore::open({.folder = dead.path()});
  ASSERT_TRUE(opened) << opened.error();
  EXPECT_TRUE(wait<ChainTask>([&](auto done) { (*opened)->get("t", std::move(done)); }));
}

TEST_F(SqliteDamageTest, AnEmptyOwnerStopsNobody) {
  open();
  submit("broken");
  submit("good");
  damage("UPDATE tasks SET owner = '' WHERE seq = 1");
  EXPECT_TRUE(wait<std::vector<std::string>>([&](auto done) { store_->take_over(boot(), true, std::move(done)); }));
  EXPECT_EQ(claim()->id(), "good");
  EXPECT_EQ(get("broken")->state, ChainState::kPoison);
}

TEST_F(SqliteDamageTest, RowsWithoutAGroupArePoisonedOneByOne) {
  open();
  submit("a");
  submit("b");
  damage("UPDATE tasks SET grp = ''");
  EXPECT_EQ(get("a")->state, ChainState::kPoison);
  EXPECT_EQ(get("b")->state, ChainState::kPoison);
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kPoison)], 2U);
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kReady)], 0U);
}

TEST_F(SqliteDamageTest, ABackupIsComplete) {
  open();
  submit("t");
  const TemporaryFolder copy;
  ASSERT_TRUE(wait<void>([&](auto done) { store_->backup(copy.path() / "cohort.db", std::move(done)); }));
  EXPECT_TRUE(SqliteStore::open({.folder = copy.path()}));
}

TEST_F(SqliteDamageTest, ADamagedPageStopsTheStoreAndSaysHowToRestore) {
  open();
  for (int i = 0; i < 300; ++i) submit("t" + std::to_string(i));
  store_.reset();
  {
    std::fstream page(file(), std::ios::in | std::ios::out | std::ios::binary);
    const auto bytes = std::filesystem::file_size(file());
    for (std::uintmax_t at = 4096 * 8; at + 4096 < bytes; at += 4096) {
      page.seekp(static_cast<std::streamoff>(at));
      page.write("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
    }
  }
  auto opened = try_open();
  std::string said;
  if (opened) {
    const NewTask task{.id = "late", .group = "g", .steps = {{.plugin = "p"}}};
    for (int i = 0; i < 100 && !(*opened)->fault(); ++i) {
      static_cast<void>(wait<TaskPage>([&](auto done) { (*opened)->list({.limit = 1000}, std::move(done)); }));
      static_cast<void>(
          wait<std::vector<Result<Submitted>>>([&](auto done) { (*opened)->submit({task}, std::move(done)); }));
    }
    ASSERT_TRUE((*opened)->fault());
    said = (*opened)->fault()->message;
  } else {
    said = opened.error().message;
  }
  EXPECT_NE(said.find("put a backup there"), std::string::npos) << said;
}

TEST_F(SqliteDamageTest, AfterAnUncleanEndTheFileIsChecked) {
  open();
  for (int i = 0; i < 300; ++i) submit("t" + std::to_string(i));
  store_.reset();
  on_file("UPDATE numbers SET value = 1 WHERE name = 'in_use'; PRAGMA wal_checkpoint(TRUNCATE)");
  { std::ofstream log(file() + "-wal"); }
  {
    std::fstream page(file(), std::ios::in | std::ios::out | std::ios::binary);
    page.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file()) - 4096));
    page.write("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
  }
  const auto refused = try_open();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("is damaged"), std::string::npos) << refused.error();
}

TEST_F(SqliteDamageTest, TheCheckEndsInTimeAndSaysNothingOfWhatItHasNotSeen) {
  open();
  for (int i = 0; i < 300; ++i) submit("t" + std::to_string(i));
  store_.reset();
  sqlite::Database database(file(), false, {});
  EXPECT_EQ(database.quick_check(1h), std::nullopt);
  EXPECT_EQ(database.quick_check(Duration::zero()), std::nullopt);
  EXPECT_EQ(database.value("SELECT count(*) FROM tasks"), 300) << "it can be used afterwards";
}

TEST_F(SqliteDamageTest, ANetworkFileSystemIsKnownByItsType) {
  EXPECT_STREQ(sqlite::network_file_system(0x6969), "NFS");
  EXPECT_STREQ(sqlite::network_file_system(0xFF534D42), "CIFS");
  EXPECT_EQ(sqlite::network_file_system(0xEF53), nullptr);
}

// --- clocks

// As after a start of the host with a clock that is an hour behind.
TEST_F(SqliteDamageTest, NothingIsDelayedByMoreThanItsOwnLength) {
  open();
  submit("t");
  const ChainTask claimed = *claim();
  const Claim right{claimed.id(), claimed.owner, claimed.epoch};
  ASSERT_TRUE(wait<ChainRow>(
      [&](auto done) { store_->write(right, 1, AttemptEnded{.give_back = true, .delay = 10s}, std::move(done)); }));
  damage(
      "UPDATE numbers SET value = value + 1 WHERE name = 'clock:boot';"
      "UPDATE tasks SET due_at = due_at + 3600000000, deadline_at = deadline_at + 3600000000");
  const auto answer = wait<ClaimAnswer>(
      [&](auto done) { store_->claim({.id = "later", .boot = boot(), .group = "g"}, std::move(done)); });
  ASSERT_TRUE(answer && answer->next_in);
  EXPECT_LE(*answer->next_in, 10s);
  EXPECT_LE(get("t")->deadline_at, system_wall_clock().now() + 1h);
}

// --- fencing

TEST_F(SqliteDamageTest, TheFolderStaysLockedWithoutItsLockFile) {
  open();
  std::filesystem::remove(folder_.path() / "lock");
  const auto second = try_open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
}

TEST_F(SqliteDamageTest, AWriteComparesOwnerAndEpochInTheFile) {
  open();
  submit("t");
  const ChainTask claimed = *claim();
  on_file("UPDATE tasks SET owner = 'thief', epoch = epoch + 1");  // Another process, while this one has it claimed.
  const Claim right{claimed.id(), claimed.owner, claimed.epoch};
  const auto refused =
      wait<ChainRow>([&](auto done) { store_->write(right, 1, Checkpoint{.step = 0}, std::move(done)); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kStale);
  EXPECT_EQ(get("t")->owner, "thief");
  EXPECT_EQ(get("t")->step, 0U);
}

TEST_F(SqliteDamageTest, AStoreOfVersionOneIsBroughtForward) {
  open();
  submit("t");
  submit("u", "h");
  store_.reset();
  // Back to the first schema, as far as its columns go.
  on_file(
      "DROP INDEX tasks_ready; DROP INDEX tasks_due; DROP INDEX tasks_by_group; DROP INDEX dead_letters_failed; DROP "
      "INDEX refused_messages_at; DROP TABLE attempts; DROP TABLE "
      "counts; DELETE FROM numbers; ALTER TABLE tasks DROP COLUMN due_after; ALTER TABLE tasks DROP COLUMN "
      "deadline_after; ALTER TABLE tasks DROP COLUMN attempt_began_at; ALTER TABLE tasks DROP COLUMN attempt_lines; "
      "ALTER "
      "TABLE tasks DROP COLUMN attempts_made; ALTER TABLE tasks DROP COLUMN format; ALTER TABLE tasks DROP COLUMN "
      "outline; ALTER TABLE dead_letters DROP "
      "COLUMN "
      "format; ALTER TABLE events DROP COLUMN format; ALTER TABLE events DROP COLUMN ordinal; ALTER TABLE tasks DROP "
      "COLUMN "
      "events_made; ALTER TABLE groups DROP COLUMN limits; ALTER TABLE groups DROP COLUMN version; ALTER TABLE groups "
      "DROP COLUMN format; CREATE TABLE commands (seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind "
      "TEXT "
      "NOT NULL, target TEXT NOT NULL, arguments TEXT NOT NULL, actor TEXT NOT NULL); INSERT INTO commands (at, kind, "
      "target, arguments, actor) VALUES (1, 'resize_group', 'h', 'old', ''), (2, 'resize_group', 'h', 'new', ''), (3, "
      "'pause_group', 'g', '', ''); ALTER TABLE dead_letters RENAME COLUMN plugin TO callback; CREATE INDEX "
      "tasks_ready ON tasks "
      "(grp, priority, seq) WHERE state = 1 AND due_at IS NULL; "
      "CREATE INDEX tasks_due ON tasks (grp, due_at) WHERE state = 1 AND due_at IS NOT NULL; PRAGMA "
      "user_version = 1");
  open();
  EXPECT_EQ(get("t")->deadline_after, Duration(1h));
  EXPECT_EQ(stats().tasks[static_cast<std::size_t>(ChainState::kReady)], 2U);
  EXPECT_EQ(wait<GroupCounts>([&](auto done) { store_->group_count("h", std::move(done)); })->ready, 1U);
  EXPECT_EQ(claim()->id(), "t");
  EXPECT_EQ(controls(), (std::vector<GroupControl>{{.group = "h", .limits = "new"}}));
}

}  // namespace
}  // namespace cohort
