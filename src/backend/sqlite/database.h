#pragma once

// SQLite's C interface with owners and exceptions that stay inside this folder.

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cohort/base/error.h"
#include "cohort/base/wall_clock.h"

namespace cohort::sqlite {

/// Something SQLite could not do. Thrown and caught in this folder only.
class Failure : public std::runtime_error {
 public:
  Failure(int result, const std::string& message) : std::runtime_error(message), result_(result) {}
  [[nodiscard]] int result() const { return result_; }
  [[nodiscard]] bool is_damage() const;
  /// As the user is told, with the way out.
  [[nodiscard]] Error to_error(const std::string& file) const;

 private:
  int result_;
};

/// A prepared statement, bound from the left and read by column.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql);
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(std::int64_t value);
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(std::uint32_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(bool value) { return bind(static_cast<std::int64_t>(value ? 1 : 0)); }
  Statement& bind(double value);
  /// The text must live until the statement is reset.
  Statement& bind(std::string_view text);
  Statement& bind(const std::string& text) { return bind(std::string_view(text)); }
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(std::nullptr_t);
  Statement& bind(WallTime time) { return bind(static_cast<std::int64_t>(time.time_since_epoch().count())); }
  Statement& bind(Duration duration) { return bind(static_cast<std::int64_t>(duration.count())); }
  template <class T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind(nullptr);
  }

  /// True: there is a row.
  bool step();
  /// For one without rows.
  void run();
  void reset();

  [[nodiscard]] int columns() const { return sqlite3_column_count(statement_); }
  [[nodiscard]] const char* name(int column) const { return sqlite3_column_name(statement_, column); }
  [[nodiscard]] int type(int column) const { return sqlite3_column_type(statement_, column); }
  [[nodiscard]] bool is_null(int column) const { return type(column) == SQLITE_NULL; }
  [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_, column); }
  [[nodiscard]] std::string text(int column) const;

 private:
  void check(int result) const;

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

/// Resets a statement at the end of its use.
class StatementLease {
 public:
  explicit StatementLease(Statement& statement) : statement_(statement) {}
  StatementLease(const StatementLease&) = delete;
  StatementLease& operator=(const StatementLease&) = delete;
  ~StatementLease() { statement_.reset(); }
  Statement* operator->() { return &statement_; }
  Statement& operator*() { return statement_; }

 private:
  Statement& statement_;
};

/// The way out of a damaged file, for messages.
[[nodiscard]] std::string how_to_restore(const std::string& file);

/// One connection. For one thread at a time.
class Database {
 public:
  Database(const std::string& file, bool read_only, const std::string& vfs);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  void execute(const std::string& sql);
  /// Prepared once; `sql` is a literal.
  StatementLease prepare(const char* sql);
  /// For once.
  [[nodiscard]] Statement statement(const char* sql) { return Statement(database_, sql); }
  [[nodiscard]] std::int64_t value(const char* sql);
  [[nodiscard]] std::int64_t changes() const { return sqlite3_changes64(database_); }
  /// Number of the row that the last INSERT made.
  [[nodiscard]] std::int64_t last_row() const { return sqlite3_last_insert_rowid(database_); }
  [[nodiscard]] bool in_transaction() const { return sqlite3_get_autocommit(database_) == 0; }
  /// Closing the last connection then moves the log into the file and removes it. Without this call closing leaves both
  /// files as they are, whatever went wrong before.
  void tidy_up_on_close() { sqlite3_db_config(database_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr); }
  /// Looks whether the file is sound, for at most `limit`. What is wrong; nothing if no damage was found by then.
  [[nodiscard]] std::optional<std::string> quick_check(Duration limit);

 private:
  sqlite3* database_ = nullptr;
  std::unordered_map<const char*, std::unique_ptr<Statement>> statements_;
};

}  // namespace cohort::sqlite
