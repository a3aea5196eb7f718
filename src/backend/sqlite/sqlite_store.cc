#include "cohort/backend/sqlite/sqlite_store.h"

#include <utility>

#include "backend/sqlite/database.h"
#include "backend/sqlite/folder_lock.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/tables.h"
#include "backend/sqlite/worker.h"
#include "cohort/base/failpoint.h"

namespace cohort {

using sqlite::Database;
using sqlite::Failure;
using sqlite::FolderLock;
using sqlite::Statement;
using sqlite::Tables;
using sqlite::Use;
using sqlite::Worker;

namespace {

using Calls = std::vector<std::unique_ptr<sqlite::Call>>;

constexpr const char* kFileName = "cohort.db";

Result<void> copy_to_new_file(Database& from, const std::filesystem::path& to) {
  if (std::filesystem::exists(to)) {
    return Error{ErrorCode::kExists, "'" + to.string() + "' is there already; a backup needs a new file"};
  }
  Use row = from.prepare("VACUUM INTO ?");
  const std::string path = to.string();
  row->bind(path).run();
  return {};
}

std::string synchronous_name(SqliteOptions::Synchronous synchronous) {
  switch (synchronous) {
    case SqliteOptions::Synchronous::kOff: return "OFF";
    case SqliteOptions::Synchronous::kNormal: return "NORMAL";
    case SqliteOptions::Synchronous::kFull: break;
  }
  return "FULL";
}

// A repeated look at the groups by jumping from one to the next through an index.
constexpr const char* kReadyGroups =
    "WITH RECURSIVE g(x) AS (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NULL UNION ALL "
    "SELECT (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NULL AND grp > g.x) FROM g WHERE g.x IS NOT "
    "NULL) "
    "SELECT x FROM g WHERE x IS NOT NULL AND NOT EXISTS (SELECT 1 FROM groups WHERE grp = x AND paused_since IS NOT "
    "NULL)";
constexpr const char* kDueGroups =
    "WITH RECURSIVE g(x) AS (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NOT NULL UNION ALL "
    "SELECT (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NOT NULL AND grp > g.x) FROM g "
    "WHERE g.x IS NOT NULL) SELECT x, (SELECT min(due_at) FROM tasks WHERE grp = x AND state = 1 AND due_at IS NOT "
    "NULL) "
    "FROM g WHERE x IS NOT NULL AND NOT EXISTS (SELECT 1 FROM groups WHERE grp = x AND paused_since IS NOT NULL)";

}  // namespace

class SqliteStore::Impl {
 public:
  Impl(SqliteOptions options, FolderLock lock)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : system_wall_clock()),
        lock_(std::move(lock)),
        file_((options_.folder / kFileName).string()) {}

  Result<void> open() {
    try {
      write_to_ = std::make_unique<Database>(file_, false, options_.vfs);
      if (auto good = sqlite::check_owner(*write_to_, file_); !good) return good;
      if (Statement mode = write_to_->statement("PRAGMA journal_mode = WAL"); !mode.step() || mode.text(0) != "wal") {
        return Error{ErrorCode::kUnavailable,
                     "the store in '" + file_ + "' cannot use a write-ahead log; is it on a network file system?"};
      }
      write_to_->execute("PRAGMA synchronous = " + synchronous_name(options_.synchronous));
      write_to_->execute("PRAGMA cache_size = -16000");
      sqlite::migrate(*write_to_);
      tables_ = std::make_unique<Tables>(*write_to_, clock_);
      read_from_ = std::make_unique<Database>(file_, false, options_.vfs);
      read_from_->execute("PRAGMA query_only = 1");
    } catch (const Failure& failure) {
      return failure.to_error(file_);
    }
    reader_ =
        std::make_unique<Worker>("cohort-read", options_.max_queued, 1, [this](Calls& calls) { return look(calls); });
    writer_ = std::make_unique<Worker>("cohort-write", options_.max_queued, options_.max_batch,
                                       [this](Calls& calls) { return change(calls); });
    return {};
  }

  ~Impl() {
    // Whoever is told something by one of them may call the other.
    if (writer_) writer_->stop();
    if (reader_) reader_->stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  template <class T, class Work>
  void write(Work work, Completion<T> done) {
    writer_->add<T>([this, work = std::move(work)]() mutable { return Result<T>(work(*tables_)); }, std::move(done));
  }
  template <class T, class Work>
  void read(Work work, Completion<T> done) {
    reader_->add<T>([this, work = std::move(work)]() mutable { return Result<T>(work(*read_from_)); }, std::move(done));
  }

  [[nodiscard]] WallTime now() const { return clock_.now(); }
  [[nodiscard]] Database connect() const { return Database(file_, false, options_.vfs); }

 private:
  // All calls in one transaction; they count when it is on the disk. If one of them cannot be done at all, each has one
  // of its own, so that it fails alone.
  std::optional<Error> change(Calls& calls) {
    const std::optional<Error> failure = change_together(calls);
    if (!failure || failure->code == ErrorCode::kUnavailable || calls.size() == 1) return failure;
    for (std::unique_ptr<sqlite::Call>& call : calls) {
      Calls one;
      one.push_back(std::move(call));
      const std::optional<Error> its = change_together(one);
      one.front()->complete(its ? &*its : nullptr);
    }
    calls.clear();
    return std::nullopt;
  }

  std::optional<Error> change_together(Calls& calls) {
    try {
      write_to_->execute("BEGIN IMMEDIATE");
      for (const std::unique_ptr<sqlite::Call>& call : calls) call->run();
      if (COHORT_FAILPOINT("store.commit")) throw Failure(SQLITE_FULL, "a test says so");
      write_to_->execute("COMMIT");
    } catch (const Failure& failure) {
      return roll_back(failure.to_error(file_));
    } catch (const std::exception& other) {  // A row that cannot be understood.
      return roll_back({ErrorCode::kInternal, "the store in '" + file_ + "': " + other.what()});
    }
    static_cast<void>(COHORT_FAILPOINT("store.committed"));
    return std::nullopt;
  }

  Error roll_back(Error error) {
    tables_->forget();
    try {
      if (write_to_->in_transaction()) write_to_->execute("ROLLBACK");
      tables_->begin_anew();
    } catch (const Failure&) {
      // Then the next transaction says so.
    }
    return error;
  }

  std::optional<Error> look(Calls& calls) const {
    try {
      for (const std::unique_ptr<sqlite::Call>& call : calls) call->run();
    } catch (const Failure& failure) {
      return failure.to_error(file_);
    } catch (const std::exception& other) {
      return Error{ErrorCode::kInternal, "the store in '" + file_ + "': " + other.what()};
    }
    return std::nullopt;
  }

  const SqliteOptions options_;
  WallClock& clock_;
  FolderLock lock_;
  const std::string file_;
  std::unique_ptr<Database> write_to_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Database> read_from_;
  std::unique_ptr<Worker> reader_;  // Ends before what it uses does.
  std::unique_ptr<Worker> writer_;
};

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteStore::~SqliteStore() = default;

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(SqliteOptions options) {
  auto lock = FolderLock::take(options.folder, options.who);
  if (!lock) return lock.error();
  auto impl = std::make_unique<Impl>(std::move(options), *std::move(lock));
  if (auto good = impl->open(); !good) return good.error();
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(impl)));
}

void SqliteStore::submit(std::vector<NewTask> tasks, Completion<std::vector<Result<Submitted>>> done) {
  impl_->write<std::vector<Result<Submitted>>>(
      [tasks = std::move(tasks)](Tables& tables) mutable {
        std::vector<Result<Submitted>> answers;
        answers.reserve(tasks.size());
        for (const NewTask& task : tasks) answers.push_back(tables.submit(task));
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

void SqliteStore::write(Claim claim, std::uint64_t number, RunnerWrite write, Completion<Written> done) {
  impl_->write<Written>([claim = std::move(claim), number,
                         write = std::move(write)](Tables& tables) { return tables.write(claim, number, write); },
                        std::move(done));
}

void SqliteStore::groups_with_work(Completion<std::vector<GroupWork>> done) {
  impl_->read<std::vector<GroupWork>>(
      [this](Database& database) {
        std::vector<GroupWork> work;
        Use ready = database.prepare(kReadyGroups);
        while (ready->step()) work.push_back({ready->text(0), std::nullopt});
        Use due = database.prepare(kDueGroups);
        while (due->step()) {
          work.push_back({due->text(0), chain_rules::time_until(due->time(1), impl_->now())});
        }
        return work;
      },
      std::move(done));
}

void SqliteStore::cancel(std::string task_id, std::string reason, Completion<Written> done) {
  impl_->write<Written>([task_id = std::move(task_id),
                         reason = std::move(reason)](Tables& tables) { return tables.cancel(task_id, reason); },
                        std::move(done));
}

void SqliteStore::replay(ReplayRequest request, Completion<ChainTask> done) {
  impl_->write<ChainTask>([request = std::move(request)](Tables& tables) { return tables.replay(request); },
                          std::move(done));
}

void SqliteStore::pause_group(std::string group, bool paused, Completion<void> done) {
  impl_->write<void>(
      [group = std::move(group), paused](Tables& tables) {
        tables.pause_group(group, paused);
        return Result<void>();
      },
      std::move(done));
}

void SqliteStore::command(Command command, Completion<std::uint64_t> done) {
  impl_->write<std::uint64_t>([command = std::move(command)](Tables& tables) { return tables.command(command); },
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

// --- to look at

void SqliteStore::get(std::string task_id, Completion<ChainTask> done) {
  impl_->read<ChainTask>(
      [task_id = std::move(task_id)](Database& database) -> Result<ChainTask> {
        std::optional<ChainTask> task = sqlite::read_task(database, task_id);
        if (task) return *std::move(task);
        return Error{ErrorCode::kNotFound, "there is no task '" + task_id + "'"};
      },
      std::move(done));
}

void SqliteStore::list(TaskFilter filter, Completion<std::vector<ChainTask>> done) {
  impl_->read<std::vector<ChainTask>>(
      [filter = std::move(filter)](Database& database) {
        static const std::string sql =
            std::string("SELECT ") + sqlite::kTaskColumns +
            " FROM tasks t CROSS JOIN bodies b ON b.seq = t.seq WHERE (?1 = '' OR t.grp = ?1) AND (?2 < 0 OR t.state = "
            "?2) "
            "AND "
            "(?3 = '' OR EXISTS (SELECT 1 FROM json_each(t.tags) WHERE value = ?3)) AND t.seq < ?4 ORDER BY t.seq DESC "
            "LIMIT ?5";
        Use rows = database.prepare(sql.c_str());
        rows->bind(filter.group).bind(filter.state ? static_cast<int>(*filter.state) : -1).bind(filter.tag);
        rows->bind(filter.before != 0 ? filter.before : std::uint64_t{1} << 62U).bind(filter.limit);
        std::vector<ChainTask> found;
        while (rows->step()) {
          found.push_back(sqlite::read_task(*rows));
          found.back().request.payload.clear();
          found.back().context.clear();
        }
        return found;
      },
      std::move(done));
}

void SqliteStore::dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) {
  impl_->read<std::vector<DeadLetter>>(
      [after_task = std::move(after_task), limit](Database& database) {
        Use rows = database.prepare("SELECT * FROM dead_letters WHERE task_id > ? ORDER BY task_id LIMIT ?");
        rows->bind(after_task).bind(limit);
        std::vector<DeadLetter> found;
        while (rows->step()) found.push_back(sqlite::read_letter(*rows));
        return found;
      },
      std::move(done));
}

void SqliteStore::dead_letter(std::string task_id, Completion<DeadLetter> done) {
  impl_->read<DeadLetter>(
      [task_id = std::move(task_id)](Database& database) -> Result<DeadLetter> {
        Use row = database.prepare("SELECT * FROM dead_letters WHERE task_id = ?");
        row->bind(task_id);
        if (row->step()) return sqlite::read_letter(*row);
        return Error{ErrorCode::kNotFound, "task '" + task_id + "' has no dead letter"};
      },
      std::move(done));
}

void SqliteStore::events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) {
  impl_->read<std::vector<ChainEvent>>(
      [after, limit](Database& database) {
        Use rows = database.prepare("SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?");
        rows->bind(after).bind(limit);
        std::vector<ChainEvent> found;
        while (rows->step()) {
          found.push_back({.sequence = static_cast<std::uint64_t>(rows->integer(0)),
                           .at = rows->time(1),
                           .kind = rows->text(2),
                           .task_id = rows->text(3),
                           .group = rows->text(4),
                           .step = static_cast<std::uint32_t>(rows->integer(5)),
                           .detail = rows->text(6)});
        }
        return found;
      },
      std::move(done));
}

void SqliteStore::commands(std::uint64_t after, std::uint32_t limit, Completion<std::vector<Command>> done) {
  impl_->read<std::vector<Command>>(
      [after, limit](Database& database) {
        Use rows = database.prepare("SELECT * FROM commands WHERE seq > ? ORDER BY seq LIMIT ?");
        rows->bind(after).bind(limit);
        std::vector<Command> found;
        while (rows->step()) {
          found.push_back({.sequence = static_cast<std::uint64_t>(rows->integer(0)),
                           .at = rows->time(1),
                           .kind = rows->text(2),
                           .target = rows->text(3),
                           .arguments = rows->text(4),
                           .actor = rows->text(5)});
        }
        return found;
      },
      std::move(done));
}

void SqliteStore::paused_groups(Completion<std::vector<std::string>> done) {
  impl_->read<std::vector<std::string>>(
      [](Database& database) {
        Use rows = database.prepare("SELECT grp FROM groups WHERE paused_since IS NOT NULL ORDER BY grp");
        std::vector<std::string> found;
        while (rows->step()) found.push_back(rows->text(0));
        return found;
      },
      std::move(done));
}

void SqliteStore::group_counts(Completion<std::vector<GroupCounts>> done) {
  impl_->read<std::vector<GroupCounts>>(
      [](Database& database) {
        // Each of them goes over a partial index, so ended tasks cost nothing.
        Use rows = database.prepare(
            "SELECT grp, sum(pending), sum(ready), sum(processing), sum(paused) FROM ("
            "SELECT grp, 0 pending, count(*) ready, 0 processing, 0 paused FROM tasks WHERE state = 1 AND due_at IS "
            "NULL GROUP BY grp UNION ALL "
            "SELECT grp, 0, count(*), 0, 0 FROM tasks WHERE state = 1 AND due_at IS NOT NULL GROUP BY grp UNION ALL "
            "SELECT grp, 0, 0, count(*), 0 FROM tasks WHERE owner IS NOT NULL AND state IN (1, 2) AND state = 2 GROUP "
            "BY grp UNION ALL "
            "SELECT grp, count(*), 0, 0, 0 FROM tasks WHERE state = 0 GROUP BY grp UNION ALL "
            "SELECT grp, 0, 0, 0, 1 FROM groups WHERE paused_since IS NOT NULL) GROUP BY grp ORDER BY grp");
        const auto count = [&](int column) { return static_cast<std::uint64_t>(rows->integer(column)); };
        std::vector<GroupCounts> found;
        while (rows->step()) found.push_back({rows->text(0), count(1), count(2), count(3), count(4) != 0});
        return found;
      },
      std::move(done));
}

void SqliteStore::stats(Completion<StoreStats> done) {
  impl_->read<StoreStats>(
      [](Database& database) {
        StoreStats stats;
        Use rows = database.prepare("SELECT state, count(*) FROM tasks GROUP BY state");
        while (rows->step()) stats.tasks[rows->integer(0)] = static_cast<std::uint64_t>(rows->integer(1));
        stats.dead_letters = static_cast<std::uint64_t>(database.value("SELECT count(*) FROM dead_letters"));
        stats.events = static_cast<std::uint64_t>(database.value("SELECT count(*) FROM events"));
        stats.last_event = static_cast<std::uint64_t>(
            database.value("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)"));
        return stats;
      },
      std::move(done));
}

void SqliteStore::cursor(std::string name, Completion<std::uint64_t> done) {
  impl_->read<std::uint64_t>(
      [name = "cursor:" + name](Database& database) {
        Use row = database.prepare("SELECT value FROM numbers WHERE name = ?");
        row->bind(name);
        return row->step() ? static_cast<std::uint64_t>(row->integer(0)) : 0;
      },
      std::move(done));
}

void SqliteStore::backup(std::filesystem::path to, Completion<void> done) {
  impl_->read<void>(
      [this, to = std::move(to)](Database&) -> Result<void> {
        Database from = impl_->connect();
        return copy_to_new_file(from, to);
      },
      std::move(done));
}

Result<void> SqliteStore::backup_folder(const std::filesystem::path& folder, const std::filesystem::path& to) {
  const std::filesystem::path file = folder / kFileName;
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
  impl_->read<void>(
      [](Database& database) -> Result<void> {
        Use row = database.prepare("PRAGMA integrity_check(1)");
        const std::string verdict = row->step() ? row->text(0) : "no answer";
        if (verdict == "ok") return {};
        return Error{ErrorCode::kInternal, "the store's file is damaged: " + verdict + "; restore a backup"};
      },
      std::move(done));
}

}  // namespace cohort
