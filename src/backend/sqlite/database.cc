#include "backend/sqlite/database.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "cohort/base/mutex.h"

namespace cohort::sqlite {

std::string how_to_restore(const std::string& file) {
  return "restore a backup: stop the node, move '" + file +
         "' and the files beside it ('-wal', '-shm') away, put a backup there as '" + file +
         "' and start again; without one, `sqlite3 OLD .recover | sqlite3 NEW` saves what is readable";
}

bool Failure::is_damage() const { return (result_ & 0xff) == SQLITE_CORRUPT || (result_ & 0xff) == SQLITE_NOTADB; }

Error Failure::to_error(const std::string& file) const {
  const std::string where = "the store in '" + file + "': ";
  switch (result_ & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kUnavailable, where + "the disk is full; free some space, nothing that was accepted is lost"};
    case SQLITE_READONLY:
      return {ErrorCode::kUnavailable, where + "it cannot be written (" + what() + "); check owner and permissions"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return {ErrorCode::kUnavailable, where + "another program has locked it"};
    case SQLITE_CORRUPT:
      return {ErrorCode::kInternal, where + "the file is damaged (" + what() + "); " + how_to_restore(file)};
    case SQLITE_NOTADB:
      return {ErrorCode::kInvalid,
              where + "this is not a database of Cohort, or its head is damaged; " + how_to_restore(file)};
    case SQLITE_CANTOPEN:
      return {ErrorCode::kUnavailable, where + "it cannot be opened (" + what() + "); check the path and permissions"};
    case SQLITE_IOERR: return {ErrorCode::kUnavailable, where + "reading or writing failed (" + what() + ")"};
    default: return {ErrorCode::kInternal, where + what()};
  }
}

Statement::Statement(sqlite3* database, std::string_view sql) : database_(database) {
  check(sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement_,
                           nullptr));
}

void Statement::check(int result) const {
  if (result != SQLITE_OK) throw Failure(sqlite3_extended_errcode(database_), sqlite3_errmsg(database_));
}

Statement& Statement::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  check(sqlite3_bind_text64(statement_, ++bound_, text.data() != nullptr ? text.data() : "", text.size(), SQLITE_STATIC,
                            SQLITE_UTF8));
  return *this;
}
Statement& Statement::bind(std::nullptr_t) {
  check(sqlite3_bind_null(statement_, ++bound_));
  return *this;
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  throw Failure(sqlite3_extended_errcode(database_), sqlite3_errmsg(database_));
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() {
  sqlite3_reset(statement_);
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

Database::Database(const std::string& file, bool read_only, const std::string& vfs) {
  const int flags =
      SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  const int result = sqlite3_open_v2(file.c_str(), &database_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (result != SQLITE_OK) {
    const Failure failure(result, database_ != nullptr ? sqlite3_errmsg(database_) : "out of memory");
    sqlite3_close(database_);
    throw failure;
  }
  sqlite3_extended_result_codes(database_, 1);
  sqlite3_busy_timeout(database_, 2000);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Database::~Database() {
  statements_.clear();
  sqlite3_close(database_);
}

std::optional<std::string> Database::quick_check(Duration limit) {
  // A progress handler is not asked while pages are walked. An interrupt is; one that comes before the walk has begun
  // has no effect, so it is repeated until the check has ended.
  Mutex mutex;
  CondVar changed;
  bool has_ended = false;
  std::atomic<bool> was_cut_short{false};
  const Time until = saturating_add(system_clock().now(), limit);
  std::thread watch([&] {
    MutexLock lock(mutex);
    while (!has_ended) {
      const Duration left = until - system_clock().now();
      if (left <= Duration::zero()) {
        was_cut_short = true;
        sqlite3_interrupt(database_);
      }
      const Duration wait = std::max<Duration>(left, std::chrono::milliseconds(1));
      changed.wait_until(mutex, saturating_add(std::chrono::steady_clock::now(), wait));
    }
  });
  std::optional<std::string> damage;
  try {
    Statement verdict(database_, "PRAGMA quick_check(1)");
    if (verdict.step() && verdict.text(0) != "ok") damage = verdict.text(0);
  } catch (const Failure& failure) {
    if ((failure.result() & 0xff) != SQLITE_INTERRUPT) damage = failure.what();
  }
  {
    MutexLock lock(mutex);
    has_ended = true;
    changed.notify_all();
  }
  watch.join();
  if (was_cut_short) return std::nullopt;  // Half a walk takes pages it has not come to for lost ones.
  return damage;
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw Failure(sqlite3_extended_errcode(database_), sqlite3_errmsg(database_));
  }
}

StatementLease Database::prepare(const char* sql) {
  std::unique_ptr<Statement>& statement = statements_[sql];
  if (!statement) statement = std::make_unique<Statement>(database_, sql);
  return StatementLease(*statement);
}

std::int64_t Database::value(const char* sql) {
  Statement statement(database_, sql);
  return statement.step() ? statement.integer(0) : 0;
}

}  // namespace cohort::sqlite
