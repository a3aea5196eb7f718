#include "cohort/backend/sqlite/sqlite_store.h"

#include <fcntl.h>

#include <filesystem>
#include <utility>

#include "backend/sqlite/database.h"
#include "backend/sqlite/folder_lock.h"
#include "backend/sqlite/queries.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/store_clock.h"
#include "backend/sqlite/store_guard.h"
#include "backend/sqlite/tables.h"
#include "backend/sqlite/worker.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/log.h"
#include "store/watchers.h"

namespace cohort {

using sqlite::DamagedRows;
using sqlite::Database;
using sqlite::Failure;
using sqlite::FolderLock;
using sqlite::Statement;
using sqlite::StatementLease;
using sqlite::Tables;
using sqlite::Worker;

namespace {

using Calls = std::vector<std::unique_ptr<sqlite::Call>>;

constexpr const char* kFileName = "cohort.db";
constexpr const char* kInUse = "in_use";  // In `numbers`: 1 while a process has the store open, and after it has died.
constexpr Duration kLongestCheck = std::chrono::seconds(5);

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

std::string synchronous_name(SqliteOptions::Synchronous synchronous) {
  switch (synchronous) {
    case SqliteOptions::Synchronous::kOff: return "OFF";
    case SqliteOptions::Synchronous::kNormal: return "NORMAL";
    case SqliteOptions::Synchronous::kFull: break;
  }
  return "FULL";
}

}  // namespace

// Among the calls of a transaction that is committed: tells the watchers of it.
class NewsCall final : public sqlite::Call {
 public:
  NewsCall(Watchers& watchers, StoreNews news) : watchers_(watchers), news_(std::move(news)) {}
  void run() override {}
  void complete(const Error*) override { watchers_.tell(news_); }

 private:
  Watchers& watchers_;
  StoreNews news_;
};

class SqliteStore::Impl {
 public:
  Impl(SqliteOptions options, FolderLock lock)
      : options_(std::move(options)),
        clock_(options_.clock, options_.steady_clock),
        lock_(std::move(lock)),
        file_((options_.folder / kFileName).string()),
        guard_(file_) {}

  Result<void> open() {
    try {
      if (auto opened = open_file(); !opened) return opened;
      tables_ = std::make_unique<Tables>(*write_to_, clock_, damage_);
      write_to_->execute("BEGIN IMMEDIATE");
      tables_->mend();
      if (is_new_anchor_) tables_->clamp_times();
      write_to_->execute("COMMIT");
      guard_.watch();
      for (std::unique_ptr<Database>* each : {&read_from_, &scan_}) {
        *each = std::make_unique<Database>(file_, false, options_.vfs);
        (*each)->execute("PRAGMA query_only = 1");
      }
    } catch (const Failure& failure) {
      return failure.to_error(file_);
    }
    reader_ = std::make_unique<Worker>("cohort-read", options_.max_queued, 1, false,
                                       [this](Calls& calls) { return look(calls); });
    scanner_ = std::make_unique<Worker>("cohort-scan", options_.max_queued, 1, true,
                                        [this](Calls& calls) { return look(calls); });
    writer_ = std::make_unique<Worker>("cohort-write", options_.max_queued, options_.max_batch, false,
                                       [this](Calls& calls) { return change(calls); });
    check_rows_from(0);
    return {};
  }

  ~Impl() {
    // A completion of one of them may call another.
    if (writer_) writer_->stop();
    if (reader_) reader_->stop();
    if (scanner_) scanner_->stop();
    if (!writer_ || guard_.check()) return;  // The files are another's, or damaged: they stay as they are.
    try {
      tables_->set_number(kInUse, 0);
      write_to_->tidy_up_on_close();
    } catch (const Failure&) {
      // Then the next start takes this for an unclean end, and checks the file.
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  template <class T, class Work>
  void write(Work work, Completion<T> done) {
    writer_->add<T>([this, work = std::move(work)]() mutable { return Result<T>(work(*tables_)); }, std::move(done));
  }
  /// For calls that look up a few rows. They never wait behind a scan.
  template <class T, class Work>
  void read(Work work, Completion<T> done) {
    reader_->add<T>([this, work = std::move(work)]() mutable { return Result<T>(work(*read_from_)); }, std::move(done));
  }
  /// For calls that go over many rows.
  template <class T, class Work>
  void scan(Work work, Completion<T> done) {
    scanner_->add<T>([this, work = std::move(work)]() mutable { return Result<T>(work(*scan_)); }, std::move(done));
  }
  /// The writer looks at these rows again, and ends their tasks as poison. Then `done` is called.
  void poison(const DamagedRows& rows, Function<void()> done) {
    if (rows.empty()) return done();
    write<void>(
        [rows](Tables& tables) {
          for (const std::uint64_t each : rows) tables.poison_if_damaged(each);
          return Result<void>();
        },
        [done = std::move(done)](const Result<void>&) mutable { done(); });
  }

  [[nodiscard]] Watchers& watchers() { return watchers_; }
  [[nodiscard]] StoreTime now() const { return clock_.now(); }
  [[nodiscard]] Database connect() const { return Database(file_, false, options_.vfs); }
  [[nodiscard]] sqlite::DamageLog& damage() { return damage_; }
  [[nodiscard]] sqlite::StoreGuard& guard() { return guard_; }
  [[nodiscard]] int lock_descriptor() const { return lock_.descriptor(); }

 private:
  // The marker stands in the main file, not only in the log, while a process has the store open. So a lost log is
  // noticed.
  Result<void> open_file() {
    const std::string log = file_ + "-wal";
    const bool has_log = std::filesystem::exists(log);
    if (has_log && !std::filesystem::exists(file_)) {
      return Error{ErrorCode::kInvalid, "'" + file_ + "' is missing, but its log '" + log +
                                            "' is there; put the file back, or remove the log to begin anew"};
    }
    write_to_ = std::make_unique<Database>(file_, false, options_.vfs);
    if (auto good = sqlite::check_owner(*write_to_, file_); !good) return good;
    const bool was_in_use = write_to_->value("SELECT count(*) FROM sqlite_schema WHERE name = 'numbers'") != 0 &&
                            write_to_->value("SELECT count(*) FROM numbers WHERE name = 'in_use' AND value = 1") != 0;
    if (was_in_use && !has_log && !options_.accept_lost_log) {
      write_to_->tidy_up_on_close();  // Only opening has made a log: it must not be taken for the lost one next time.
      return Error{ErrorCode::kInvalid,
                   "the store in '" + file_ + "' was in use when its process ended, and its log '" + log +
                       "' is missing: what was accepted last may be lost. Put the log back, or restore a backup, or "
                       "accept the loss with `cohort serve --accept-lost-log`"};
    }
    if (Statement mode = write_to_->statement("PRAGMA journal_mode = WAL"); !mode.step() || mode.text(0) != "wal") {
      return Error{ErrorCode::kUnavailable,
                   "the store in '" + file_ + "' cannot use a write-ahead log; is it on a network file system?"};
    }
    write_to_->execute("PRAGMA synchronous = " + synchronous_name(options_.synchronous));
    write_to_->execute("PRAGMA cache_size = -16000");
    // A checkpoint stops the writer: four times as rarely as by default, for a log of at most some 16 MiB.
    write_to_->execute("PRAGMA wal_autocheckpoint = 4000");
    if (was_in_use) {
      COHORT_LOG(kInfo, "store", "the last process that used the store did not end in order; its file is checked",
                 {"file", file_});
      if (const auto damage = write_to_->quick_check(kLongestCheck)) {
        return Error{ErrorCode::kInternal,
                     "the store in '" + file_ + "' is damaged (" + *damage + "); " + sqlite::how_to_restore(file_)};
      }
    }
    sqlite::migrate(*write_to_);
    is_new_anchor_ = clock_.open(*write_to_);
    if (was_in_use) return {};
    write_to_->execute("INSERT OR REPLACE INTO numbers VALUES ('in_use', 1)");
    write_to_->execute("PRAGMA wal_checkpoint(TRUNCATE)");
    return {};
  }

  // Goes over all open tasks once, in small pieces, so that a damaged row is found in a paused group as well.
  void check_rows_from(std::uint64_t after) {
    auto damaged = std::make_shared<DamagedRows>();
    scan<std::uint64_t>([after, damaged](Database& database) { return sqlite::check_rows(database, after, *damaged); },
                        [this, after, damaged](Result<std::uint64_t> next) {
                          if (!next) {
                            COHORT_LOG(kWarning, "store", "the rows of open tasks were not all checked",
                                       {"after", after}, {"error", next.error().message});
                            return;
                          }
                          poison(*damaged, [this, next = *next] {
                            if (next != 0) check_rows_from(next);
                          });
                        });
  }

  // All calls in one transaction; they count when it is on the disk. If one of them cannot be done at all, each has one
  // of its own, so that it fails alone.
  std::optional<Error> change(Calls& calls) {
    if (const std::optional<Error> fault = guard_.check()) return fault;
    const std::optional<Error> failure = change_together(calls);
    guard_.note_write(failure);
    if (!failure) return add_news(calls), std::nullopt;
    if (failure->code == ErrorCode::kUnavailable || calls.size() == 1 || guard_.fault()) return failure;
    for (std::unique_ptr<sqlite::Call>& call : calls) {
      Calls one;
      one.push_back(std::move(call));
      const std::optional<Error> its = change_together(one);
      if (!its) watchers_.tell(tables_->take_news());
      one.front()->complete(its ? &*its : nullptr);
    }
    calls.clear();
    return std::nullopt;
  }

  // Watchers are told by the thread that tells the callers, and before them: what was submitted starts the sooner.
  void add_news(Calls& calls) {
    StoreNews news = tables_->take_news();
    if (!is_empty(news)) calls.insert(calls.begin(), std::make_unique<NewsCall>(watchers_, std::move(news)));
  }

  std::optional<Error> change_together(Calls& calls) {
    try {
      write_to_->execute("BEGIN IMMEDIATE");
      for (const std::unique_ptr<sqlite::Call>& call : calls) call->run();
      tables_->flush();
      if (COHORT_FAILPOINT("store.commit")) throw Failure(SQLITE_FULL, "a test says so");
      write_to_->execute("COMMIT");
    } catch (const Failure& failure) {
      return roll_back(note(failure));
    } catch (const sqlite::Fenced& fenced) {
      return roll_back({ErrorCode::kStale, fenced.what()});
    } catch (const std::exception& other) {
      return roll_back({ErrorCode::kInternal, "the store in '" + file_ + "': " + other.what()});
    }
    static_cast<void>(COHORT_FAILPOINT("store.committed"));
    tables_->log_committed();
    return std::nullopt;
  }

  // A damaged file is a fault: whatever is written to it may make it worse.
  Error note(const Failure& failure) {
    Error error = failure.to_error(file_);
    if (failure.is_damage()) guard_.set_fault(error);
    return error;
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

  std::optional<Error> look(Calls& calls) {
    static_cast<void>(guard_.check());
    try {
      for (const std::unique_ptr<sqlite::Call>& call : calls) call->run();
    } catch (const Failure& failure) {
      return note(failure);
    } catch (const std::exception& other) {
      return Error{ErrorCode::kInternal, "the store in '" + file_ + "': " + other.what()};
    }
    return std::nullopt;
  }

  const SqliteOptions options_;
  Watchers watchers_;
  sqlite::StoreClock clock_;
  FolderLock lock_;
  const std::string file_;
  sqlite::StoreGuard guard_;
  bool is_new_anchor_ = false;
  sqlite::DamageLog damage_;
  std::unique_ptr<Database> write_to_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Database> read_from_;
  std::unique_ptr<Database> scan_;
  std::unique_ptr<Worker> reader_;  // Ends before what it uses does.
  std::unique_ptr<Worker> scanner_;
  std::unique_ptr<Worker> writer_;
};

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

void SqliteStore::commands(std::uint64_t after, std::uint32_t limit, Completion<std::vector<Command>> done) {
  impl_->read<std::vector<Command>>(
      [this, after, limit](Database& database) {
        static const std::string sql =
            std::string("SELECT ") + sqlite::kCommandColumns + " FROM commands WHERE seq > ? ORDER BY seq";
        StatementLease rows = database.prepare(sql.c_str());
        rows->bind(after);
        return sqlite::read_rows<Command>(*rows, limit, "commands", sqlite::read_command, impl_->damage());
      },
      std::move(done));
}

void SqliteStore::paused_groups(Completion<std::vector<std::string>> done) {
  impl_->read<std::vector<std::string>>([](Database& database) { return sqlite::paused_groups(database); },
                                        std::move(done));
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
