#include "cohort/backend/sqlite/sqlite_store.h"

#include <fcntl.h>

#include <filesystem>
#include <utility>

#include "backend/sqlite/sqlite_store_impl.h"

namespace cohort {

using sqlite::DamagedRows;
using sqlite::Database;
using sqlite::Failure;
using sqlite::FolderLock;
using sqlite::StatementLease;
using sqlite::Tables;
namespace {

Result<void> copy_to_new_file(Database& from, const std::filesystem::path& to) {
  if (std::filesystem::exists(to)) {
    return Error{ErrorCode::kExists, "'" + to.string() + "' is there already; a backup needs a new file"};
  }
  const std::string path = to.string();
  {
    StatementLease row = from.prepare("VACUUM INTO ?");
    row->bind(path).run();
  }
  Database copy(path, false, {});  // Complete as it is: nobody has it open.
  copy.execute("UPDATE numbers SET value = 0 WHERE name = 'in_use'");
  return {};
}

}  // namespace

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteStore::~SqliteStore() = default;

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(SqliteOptions options) {
  auto lock = FolderLock::take(options.folder, options.who, options.lock_patience);
  if (!lock) return lock.error();
  auto impl = std::make_unique<Impl>(std::move(options), *std::move(lock));
  if (auto good = impl->open(); !good) return good.error();
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(impl)));
}

void SqliteStore::submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) {
  std::vector<sqlite::PreparedTask> prepared;
  prepared.reserve(tasks.size());
  for (NewTask& task : tasks) prepared.emplace_back(std::move(task));
  impl_->write<std::vector<Result<Submitted>>>(
      [prepared = std::move(prepared)](Tables& tables) {
        std::vector<Result<Submitted>> answers;
        answers.reserve(prepared.size());
        for (const sqlite::PreparedTask& each : prepared) answers.push_back(tables.submit(each));
        return answers;
      },
      std::move(done));
}

void SqliteStore::take_in(std::vector<TakenIn> messages, Completion<std::vector<IntakeAnswer>> done) {
  impl_->write<std::vector<IntakeAnswer>>(
      [messages = std::move(messages)](Tables& tables) mutable {
        std::vector<IntakeAnswer> answers;
        for (TakenIn& message : messages) answers.push_back(tables.take_in(message));
        return answers;
      },
      std::move(done));
}

void SqliteStore::join(NodeLease node, Duration lease, Completion<void> done) {
  impl_->write<void>([node = std::move(node), lease](Tables& tables) { return tables.join(node, lease); },
                     std::move(done));
}

void SqliteStore::renew(std::string boot, Duration lease, Completion<void> done) {
  impl_->write<void>([boot = std::move(boot), lease](Tables& tables) { return tables.renew(boot, lease); },
                     std::move(done));
}

void SqliteStore::leave(std::string boot, Completion<void> done) {
  impl_->write<void>(
      [boot = std::move(boot)](Tables& tables) {
        tables.leave(boot);
        return Result<void>();
      },
      std::move(done));
}

void SqliteStore::take_over(std::string boot, bool all_others, Completion<std::vector<std::string>> done) {
  impl_->write<std::vector<std::string>>(
      [boot = std::move(boot), all_others](Tables& tables) { return tables.take_over(boot, all_others); },
      std::move(done));
}

void SqliteStore::claim(ClaimRequest request, Completion<ClaimAnswer> done) {
  impl_->write<ClaimAnswer>([request = std::move(request)](Tables& tables) { return tables.claim(request); },
                            std::move(done));
}

void SqliteStore::write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<ChainRow> done) {
  impl_->write<ChainRow>([claim = std::move(claim), number,
                          write = std::move(write)](Tables& tables) { return tables.write(claim, number, write); },
                         std::move(done));
}

void SqliteStore::groups_with_work(Completion<std::vector<GroupWork>> done) {
  impl_->scan<std::vector<GroupWork>>(
      [this](Database& database) { return sqlite::groups_with_work(database, impl_->now()); }, std::move(done));
}

void SqliteStore::ready(std::string task_id, Completion<ChainTask> done) {
  impl_->write<ChainTask>([task_id = std::move(task_id)](Tables& tables) { return tables.ready(task_id); },
                          std::move(done));
}

void SqliteStore::cancel(std::string task_id, std::string reason, Completion<ChainRow> done) {
  impl_->write<ChainRow>([task_id = std::move(task_id),
                          reason = std::move(reason)](Tables& tables) { return tables.cancel(task_id, reason); },
                         std::move(done));
}

void SqliteStore::replay(ReplayRequest request, Completion<ChainTask> done) {
  impl_->write<ChainTask>([request = std::move(request)](Tables& tables) { return tables.replay(request); },
                          std::move(done));
}

void SqliteStore::pause_group(std::string group, bool paused, Completion<void> done) {
  impl_->write<void>([group = std::move(group), paused](Tables& tables) { return tables.pause_group(group, paused); },
                     std::move(done));
}

void SqliteStore::set_limits(std::string group, std::string limits, Completion<void> done) {
  impl_->write<void>([group = std::move(group),
                      limits = std::move(limits)](Tables& tables) { return tables.set_limits(group, limits); },
                     std::move(done));
}

void SqliteStore::discard_dead_letter(std::string task_id, Completion<void> done) {
  impl_->write<void>([task_id = std::move(task_id)](Tables& tables) { return tables.discard_dead_letter(task_id); },
                     std::move(done));
}

void SqliteStore::set_cursor(std::string name, std::uint64_t value, Completion<void> done) {
  impl_->write<void>(
      [name = "cursor:" + name, value](Tables& tables) {
        tables.set_number(name, static_cast<std::int64_t>(value));
        return Result<void>();
      },
      std::move(done));
}

void SqliteStore::remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) {
  impl_->write<std::uint64_t>([older_than, limit](Tables& tables) { return tables.remove_ended(older_than, limit); },
                              std::move(done));
}

std::shared_ptr<void> SqliteStore::watch(StoreWatch watch) { return impl_->watchers().add(std::move(watch)); }

// --- to look at

// A row that cannot be read is made poison first, and then shown as that.
void SqliteStore::get(std::string task_id, Completion<ChainTask> done) {
  auto damaged = std::make_shared<DamagedRows>();
  impl_->read<ChainTask>(
      [this, task_id, damaged](Database& database) -> Result<ChainTask> {
        auto task = sqlite::find_task(database, task_id, impl_->now(), *damaged);
        if (!task) return task.error();
        if (*task) return **std::move(task);
        return Error{ErrorCode::kNotFound, "there is no task '" + task_id + "'"};
      },
      [this, damaged, done = std::move(done)](Result<ChainTask> task) mutable {
        if (damaged->empty()) return done(std::move(task));
        const std::uint64_t sequence = damaged->front();
        impl_->poison(*damaged, [this, sequence, done = std::move(done)]() mutable {
          impl_->read<ChainTask>(
              [this, sequence](Database& database) -> Result<ChainTask> {
                DamagedRows again;
                auto found = sqlite::find_task(database, "@" + std::to_string(sequence), impl_->now(), again);
                if (found && *found) return **std::move(found);
                return Error{ErrorCode::kInternal, "the row of task @" + std::to_string(sequence) + " cannot be read"};
              },
              std::move(done));
        });
      });
}

void SqliteStore::attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) {
  impl_->read<std::vector<AttemptRecord>>(
      [this, task_id = std::move(task_id)](Database& database) -> Result<std::vector<AttemptRecord>> {
        DamagedRows damaged;
        auto task = sqlite::find_task(database, task_id, impl_->now(), damaged);
        if (!task) return task.error();
        if (*task) return sqlite::find_attempts(database, (*task)->sequence, impl_->damage());
        return Error{ErrorCode::kNotFound, "there is no task '" + task_id + "'"};
      },
      std::move(done));
}

void SqliteStore::list(TaskFilter filter, Completion<TaskPage> done) {
  auto damaged = std::make_shared<DamagedRows>();
  impl_->scan<TaskPage>(
      [this, filter = std::move(filter), damaged](Database& database) {
        return sqlite::list_tasks(database, filter, impl_->now(), *damaged);
      },
      [this, damaged, done = std::move(done)](Result<TaskPage> page) mutable {
        impl_->poison(*damaged, [] {});
        done(std::move(page));
      });
}

void SqliteStore::dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) {
  impl_->scan<std::vector<DeadLetter>>(
      [this, after_task = std::move(after_task), limit](Database& database) {
        static const std::string sql =
            std::string("SELECT ") + sqlite::kLetterColumns + " FROM dead_letters WHERE task_id > ? ORDER BY task_id";
        StatementLease rows = database.prepare(sql.c_str());
        rows->bind(after_task);
        return sqlite::read_rows<DeadLetter>(*rows, limit, "dead_letters", sqlite::read_letter, impl_->damage());
      },
      std::move(done));
}

void SqliteStore::dead_letter(std::string task_id, Completion<DeadLetter> done) {
  impl_->read<DeadLetter>(
      [this, task_id = std::move(task_id)](Database& database) -> Result<DeadLetter> {
        static const std::string sql =
            std::string("SELECT ") + sqlite::kLetterColumns + " FROM dead_letters WHERE task_id = ?";
        StatementLease row = database.prepare(sql.c_str());
        row->bind(task_id);
        auto found = sqlite::read_rows<DeadLetter>(*row, 1, "dead_letters", sqlite::read_letter, impl_->damage());
        if (!found.empty()) return std::move(found.front());
        return Error{ErrorCode::kNotFound, "task '" + task_id + "' has no dead letter"};
      },
      std::move(done));
}

void SqliteStore::events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) {
  impl_->read<std::vector<ChainEvent>>(
      [this, after, limit](Database& database) {
        static const std::string sql =
            std::string("SELECT ") + sqlite::kEventColumns + " FROM events WHERE seq > ? ORDER BY seq";
        StatementLease rows = database.prepare(sql.c_str());
        rows->bind(after);
        return sqlite::read_rows<ChainEvent>(*rows, limit, "events", sqlite::read_event, impl_->damage());
      },
      std::move(done));
}

void SqliteStore::controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) {
  impl_->read<std::vector<GroupControl>>(
      [after = std::move(after), limit](Database& database) { return sqlite::group_controls(database, after, limit); },
      std::move(done));
}

void SqliteStore::claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) {
  impl_->read<std::vector<HeldClaim>>(
      [boot = std::move(boot)](Database& database) { return sqlite::claims_of(database, boot); }, std::move(done));
}

void SqliteStore::group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) {
  impl_->read<std::vector<GroupCounts>>(
      [after = std::move(after), limit](Database& database) { return sqlite::group_counts(database, after, limit); },
      std::move(done));
}

void SqliteStore::group_count(std::string group, Completion<GroupCounts> done) {
  impl_->read<GroupCounts>(
      [group = std::move(group)](Database& database) { return sqlite::group_count(database, group); }, std::move(done));
}

void SqliteStore::stats(Completion<StoreStats> done) {
  impl_->read<StoreStats>(
      [this](Database& database) {
        StoreStats stats = sqlite::store_stats(database);
        stats.damaged = impl_->damage().count();
        return stats;
      },
      std::move(done));
}

std::optional<Error> SqliteStore::fault() const { return impl_->guard().fault(); }
std::optional<Error> SqliteStore::trouble() const { return impl_->guard().trouble(); }
int SqliteStore::folder_descriptor() const { return impl_->lock_descriptor(); }

void SqliteStore::cursor(std::string name, Completion<std::uint64_t> done) {
  impl_->read<std::uint64_t>(
      [name = "cursor:" + name](Database& database) {
        StatementLease row =
            database.prepare("SELECT value FROM numbers WHERE name = ? AND typeof(value) = 'integer' AND value >= 0");
        row->bind(name);
        return row->step() ? static_cast<std::uint64_t>(row->integer(0)) : 0;
      },
      std::move(done));
}

void SqliteStore::backup(std::filesystem::path to, Completion<void> done) {
  impl_->scan<void>(
      [this, to = std::move(to)](Database&) -> Result<void> {
        Database from = impl_->connect();
        return copy_to_new_file(from, to);
      },
      std::move(done));
}

Result<void> SqliteStore::backup_folder(const std::filesystem::path& folder, const std::filesystem::path& to) {
  const std::filesystem::path file = folder / kStoreFileName;
  if (!std::filesystem::exists(file)) {
    return Error{ErrorCode::kNotFound, "there is no store in '" + folder.string() + "'; name the folder of a node"};
  }
  try {
    Database from(file.string(), false, {});
    return copy_to_new_file(from, to);
  } catch (const Failure& failure) {
    return failure.to_error(file.string());
  }
}

void SqliteStore::check_integrity(Completion<void> done) {
  impl_->scan<void>(
      [](Database& database) -> Result<void> {
        StatementLease row = database.prepare("PRAGMA integrity_check(1)");
        const std::string verdict = row->step() ? row->text(0) : "no answer";
        if (verdict == "ok") return {};
        return Error{ErrorCode::kInternal, "the store's file is damaged: " + verdict + "; restore a backup"};
      },
      std::move(done));
}

}  // namespace cohort
