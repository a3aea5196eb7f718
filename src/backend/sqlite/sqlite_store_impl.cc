#include "backend/sqlite/sqlite_store_impl.h"

#include <filesystem>

#include "backend/sqlite/schema.h"
#include "cohort/base/failpoint.h"
#include "cohort/base/log.h"

namespace cohort {

using sqlite::DamagedRows;
using sqlite::Database;
using sqlite::Failure;
using sqlite::Statement;
using sqlite::Tables;
using sqlite::Worker;

namespace {

constexpr const char* kInUse = "in_use";  // In `numbers`: 1 while a process has the store open, and after it has died.
constexpr Duration kLongestCheck = std::chrono::seconds(5);

std::string synchronous_name(SqliteOptions::Synchronous synchronous) {
  switch (synchronous) {
    case SqliteOptions::Synchronous::kOff: return "OFF";
    case SqliteOptions::Synchronous::kNormal: return "NORMAL";
    case SqliteOptions::Synchronous::kFull: break;
  }
  return "FULL";
}

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

}  // namespace

Result<void> SqliteStore::Impl::open() {
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

SqliteStore::Impl::~Impl() {
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

/// The writer looks at these rows again, and ends their tasks as poison. Then `done` is called.
void SqliteStore::Impl::poison(const DamagedRows& rows, Function<void()> done) {
  if (rows.empty()) return done();
  write<void>(
      [rows](Tables& tables) {
        for (const std::uint64_t each : rows) tables.poison_if_damaged(each);
        return Result<void>();
      },
      [done = std::move(done)](const Result<void>&) mutable { done(); });
}

// The marker stands in the main file, not only in the log, while a process has the store open. So a lost log is
// noticed.
Result<void> SqliteStore::Impl::open_file() {
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
void SqliteStore::Impl::check_rows_from(std::uint64_t after) {
  auto damaged = std::make_shared<DamagedRows>();
  scan<std::uint64_t>([after, damaged](Database& database) { return sqlite::check_rows(database, after, *damaged); },
                      [this, after, damaged](Result<std::uint64_t> next) {
                        if (!next) {
                          COHORT_LOG(kWarning, "store", "the rows of open tasks were not all checked", {"after", after},
                                     {"error", next.error().message});
                          return;
                        }
                        poison(*damaged, [this, next = *next] {
                          if (next != 0) check_rows_from(next);
                        });
                      });
}

// All calls in one transaction; they count when it is on the disk. If one of them cannot be done at all, each has one
// of its own, so that it fails alone.
std::optional<Error> SqliteStore::Impl::change(Calls& calls) {
  if (std::optional<Error> fault = guard_.check()) return fault;
  std::optional<Error> failure = change_together(calls);
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
void SqliteStore::Impl::add_news(Calls& calls) {
  StoreNews news = tables_->take_news();
  if (!is_empty(news)) calls.insert(calls.begin(), std::make_unique<NewsCall>(watchers_, std::move(news)));
}

std::optional<Error> SqliteStore::Impl::change_together(Calls& calls) {
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
Error SqliteStore::Impl::note(const Failure& failure) {
  Error error = failure.to_error(file_);
  if (failure.is_damage()) guard_.set_fault(error);
  return error;
}

Error SqliteStore::Impl::roll_back(Error error) {
  tables_->forget();
  try {
    if (write_to_->in_transaction()) write_to_->execute("ROLLBACK");
    tables_->begin_anew();
  } catch (const Failure&) {
    // Then the next transaction says so.
  }
  return error;
}

std::optional<Error> SqliteStore::Impl::look(Calls& calls) {
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

}  // namespace cohort
