#pragma once

#include <exception>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/sqlite/database.h"
#include "backend/task_text.h"
#include "cohort/base/mutex.h"
#include "cohort/store/task_store.h"

namespace cohort::sqlite {

using backend::Damaged;

/// The row was written by a newer program, which alone can read it. It is skipped, and is no damage.
class Newer : public std::exception {};

/// Reads the columns of a row from the left. Nothing of the file is trusted: a value of another type or out of range is
/// Damaged.
class ColumnReader {
 public:
  explicit ColumnReader(const Statement& row) : row_(row) {}

  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max);
  [[nodiscard]] std::uint64_t number();  ///< From 0.
  [[nodiscard]] std::uint32_t count();
  [[nodiscard]] bool flag() { return integer(0, 1) != 0; }
  [[nodiscard]] double real();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::string text_or_null();
  [[nodiscard]] std::vector<std::string> lines();
  [[nodiscard]] WallTime time() { return WallTime(std::chrono::microseconds(number())); }
  [[nodiscard]] std::optional<WallTime> time_or_null();
  [[nodiscard]] Duration duration() { return Duration(static_cast<std::int64_t>(number())); }
  [[nodiscard]] std::optional<Duration> duration_or_null();
  [[nodiscard]] ChainState state();

 private:
  [[noreturn]] void damaged(const char* expected) const;
  [[nodiscard]] bool is_null() const { return row_.is_null(at_); }

  const Statement& row_;
  int at_ = 0;
};

/// Columns of `tasks t LEFT JOIN bodies b`, in the order that read_task_row() expects. The second has constants in
/// place of payload, context and log, and no large parameters: lists do not show them.
extern const char* const kTaskColumns;
extern const char* const kSummaryColumns;
extern const char* const kTaskTables;

struct TaskRow {
  std::uint64_t sequence = 0;
  bool is_newer = false;    ///< Written by a newer program; `task` is empty.
  std::string damage = {};  ///< Not empty: what cannot be read, and `task` is not to be used.
  ChainTask task = {};
};
[[nodiscard]] TaskRow read_task_row(const Statement& row);
[[nodiscard]] Error newer_format(std::uint64_t sequence);

extern const char* const kLetterColumns;
[[nodiscard]] DeadLetter read_letter(const Statement& row);
extern const char* const kEventColumns;
[[nodiscard]] ChainEvent read_event(const Statement& row);
extern const char* const kAttemptColumns;
[[nodiscard]] AttemptRecord read_attempt(const Statement& row);

/// All columns of a row as JSON; bytes that are not UTF-8 as {"hex": …}.
[[nodiscard]] std::string raw_row_text(const Statement& row);

/// Remembers which rows were found damaged: each is counted and logged once.
///
/// Thread-safety: thread-safe.
class DamageLog {
 public:
  void note(const std::string& table, const std::string& row, const std::string& damage);
  [[nodiscard]] std::uint64_t count() const;

 private:
  static constexpr std::size_t kRemembered = 1'000'000;
  mutable Mutex mutex_;
  std::unordered_set<std::size_t> seen_ COHORT_GUARDED_BY(mutex_);  // Hashes of table and row.
  std::uint64_t count_ COHORT_GUARDED_BY(mutex_) = 0;
};

/// The readable rows among those a statement gives, at most `limit`. Their last column is the format. `key` is the
/// column that names a row in the log.
template <class T>
std::vector<T> read_rows(Statement& rows, std::uint32_t limit, const std::string& table, T (*read)(const Statement&),
                         DamageLog& damage, int key = 0) {
  std::vector<T> found;
  while (found.size() < limit && rows.step()) {
    try {
      found.push_back(read(rows));
    } catch (const Damaged& broken) {
      damage.note(table, rows.text(key), broken.what());
    } catch (const Newer&) {
    }
  }
  return found;
}

}  // namespace cohort::sqlite
