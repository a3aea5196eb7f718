// Any bytes in any column of a valid database, and a whole node started on it: the node runs and the tasks that were
// not damaged run, or it says that it cannot start.
//
// The first bytes choose table, column, row and type of the value; the rest is the value.

#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "cohort/node/node.h"

namespace {

using namespace cohort;
using namespace std::chrono_literals;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

PluginRegistry plugins() {
  PluginRegistry registry;
  static_cast<void>(registry.add("ok", [](StepContext&) { return PluginResult::success({{"n", 1}}); }));
  static_cast<void>(registry.add("fail", [](StepContext&) { return PluginResult::failure("no"); }));
  return registry;
}

NodeConfig config(const std::filesystem::path& folder) {
  NodeConfig node;
  node.store.sqlite = {.folder = folder, .synchronous = SqliteOptions::Synchronous::kOff};
  node.admin.port = 0;
  node.admin.threads = 1;
  return node;
}

template <class T, class Call>
Result<T> wait(Call&& call) {
  std::promise<Result<T>> answered;
  call(Completion<T>([&](Result<T> result) { answered.set_value(std::move(result)); }));
  return answered.get_future().get();
}

ChainState state_of(Node& node, const std::string& id) {
  const auto task = wait<ChainTask>([&](auto done) { node.store().get(id, std::move(done)); });
  return task ? task->state : ChainState::kPending;
}

/// A store with tasks in every state, events, dead letters, controls, attempts and a paused group.
class Template {
 public:
  Template() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-fuzz-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    auto node = Node::start(config(folder_ / "valid"), plugins());
    if (!node) fail(node.error().message);
    ChainEngine& chains = (*node)->chains();
    for (const char* group : {"paused", "canary"}) static_cast<void>(chains.pause_group(group).await());
    static_cast<void>(chains.resize_group("a", {.max_concurrency = 2}).await());
    const auto submit = [&](NewTask task) { static_cast<void>(chains.submit(std::move(task)).await()); };
    submit({.id = "done", .group = "a", .steps = {{.plugin = "ok"}, {.plugin = "ok"}}, .tags = {"x"}});
    submit({.id = "failed", .group = "a", .steps = {{.plugin = "fail"}}, .idempotency_key = "k"});
    submit({.id = "waiting", .group = "paused", .steps = {{.plugin = "ok", .timeout = 5s, .retry = RetryPolicy()}}});
    submit({.id = "later", .group = "a", .steps = {{.plugin = "ok"}}, .start_at = system_wall_clock().now() + 24h});
    submit({.id = "pending", .group = "a", .steps = {{.plugin = "ok"}}, .pending = true});
    submit({.id = "canary", .group = "canary", .steps = {{.plugin = "ok"}}});
    for (const char* id : {"done", "failed"}) {
      while (!is_final(state_of(**node, id))) std::this_thread::sleep_for(1ms);
    }
  }
  ~Template() { std::filesystem::remove_all(folder_); }

  std::filesystem::path copy() const {
    const std::filesystem::path to = folder_ / "damaged";
    std::filesystem::remove_all(to);
    std::filesystem::create_directory(to);
    std::filesystem::copy_file(folder_ / "valid/cohort.db", to / "cohort.db");
    return to;
  }

 private:
  std::filesystem::path folder_;
};

std::vector<std::string> column(sqlite3* database, const std::string& sql) {
  std::vector<std::string> values;
  sqlite3_exec(
      database, sql.c_str(),
      [](void* to, int, char** row, char**) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(row[0] != nullptr ? row[0] : "");
        return 0;
      },
      &values, nullptr);
  return values;
}

/// False: nothing was changed, because SQLite itself refuses it.
bool damage(const std::filesystem::path& file, const std::uint8_t* bytes, std::size_t size) {
  sqlite3* database = nullptr;
  if (sqlite3_open(file.c_str(), &database) != SQLITE_OK) fail("sqlite3_open");
  const std::vector<std::string> tables = column(
      database, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name");
  const std::string& table = tables[bytes[0] % tables.size()];
  const std::vector<std::string> columns = column(database, "SELECT name FROM pragma_table_info('" + table + "')");
  const std::string& name = columns[bytes[1] % columns.size()];
  // Rows by their order in the table; the canary is left alone.
  const std::string skip = table == "tasks"    ? " WHERE id <> 'canary'"
                           : table == "bodies" ? " WHERE seq <> (SELECT seq FROM tasks WHERE id = 'canary')"
                                               : "";
  const std::string key = columns[0];
  const std::string sql = "UPDATE " + table + " SET " + name + " = ?1 WHERE " + key + " IN (SELECT " + key + " FROM " +
                          table + skip + " LIMIT 1 OFFSET " + std::to_string(bytes[2] % 6) + ")";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) fail(sqlite3_errmsg(database));
  const auto* const value = reinterpret_cast<const char*>(bytes + 4);
  const int length = static_cast<int>(size - 4);
  switch (bytes[3] % 4) {
    case 0: sqlite3_bind_blob(statement, 1, value, length, SQLITE_STATIC); break;
    case 1: sqlite3_bind_text(statement, 1, value, length, SQLITE_STATIC); break;
    case 2: {
      std::int64_t number = 0;
      std::memcpy(&number, value, std::min<std::size_t>(sizeof(number), size - 4));
      sqlite3_bind_int64(statement, 1, number);
      break;
    }
    default: {
      double number = 0;
      std::memcpy(&number, value, std::min<std::size_t>(sizeof(number), size - 4));
      sqlite3_bind_double(statement, 1, number);
    }
  }
  const bool changed = sqlite3_step(statement) == SQLITE_DONE && sqlite3_changes(database) > 0;
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return changed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const Template valid;
  if (size < 5) return 0;
  const std::filesystem::path folder = valid.copy();
  if (!damage(folder / "cohort.db", bytes, size)) return 0;
  auto node = Node::start(config(folder), plugins());
  if (!node) return 0;  // It says why.
  TaskStore& store = (*node)->store();
  static_cast<void>((*node)->chains().resume_group("canary").await());
  for (int i = 0; state_of(**node, "canary") != ChainState::kCompleted; ++i) {
    if (i == 20'000) fail("a task that was not damaged did not run");
    std::this_thread::sleep_for(1ms);
  }
  const NewTask fresh{.id = "fresh", .group = "fresh", .steps = {{.plugin = "ok"}, {.plugin = "ok"}}};
  if ((*node)->chains().submit(fresh).await().ok()) {
    for (int i = 0; state_of(**node, "fresh") != ChainState::kCompleted; ++i) {
      if (i == 20'000) fail("a task that came after the damage did not run");
      std::this_thread::sleep_for(1ms);
    }
  } else if (!store.fault()) {
    fail("a sound store took no new task");
  }
  static_cast<void>(wait<TaskPage>([&](auto done) { store.list({}, std::move(done)); }));
  static_cast<void>(wait<std::vector<DeadLetter>>([&](auto done) { store.dead_letters("", 100, std::move(done)); }));
  static_cast<void>(wait<std::vector<ChainEvent>>([&](auto done) { store.events(0, 100, std::move(done)); }));
  static_cast<void>(wait<std::vector<GroupCounts>>([&](auto done) { store.group_counts("", 100, std::move(done)); }));
  static_cast<void>(wait<StoreStats>([&](auto done) { store.stats(std::move(done)); }));
  for (int i = 1; i <= 6; ++i) static_cast<void>(state_of(**node, "@" + std::to_string(i)));
  for (const char* id : {"done", "failed", "waiting", "later", "pending"}) {
    static_cast<void>(wait<std::vector<AttemptRecord>>([&](auto done) { store.attempts(id, std::move(done)); }));
    static_cast<void>((*node)->chains().replay({.task_id = id}).await());
    static_cast<void>((*node)->chains().cancel(id, "").await());
  }
  static_cast<void>(wait<std::uint64_t>([&](auto done) { store.remove_ended(0s, 100, std::move(done)); }));
  return 0;
}
