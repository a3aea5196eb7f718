#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/sqlite/database.h"
#include "backend/sqlite/folder_lock.h"
#include "backend/sqlite/queries.h"
#include "backend/sqlite/store_clock.h"
#include "backend/sqlite/store_guard.h"
#include "backend/sqlite/tables.h"
#include "backend/sqlite/worker.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "store/watchers.h"

namespace cohort {

inline constexpr const char* kStoreFileName = "cohort.db";

/// The file and its threads: one writes, one looks up single rows, one goes over many.
class SqliteStore::Impl {
 public:
  Impl(SqliteOptions options, sqlite::FolderLock lock)
      : options_(std::move(options)),
        clock_(options_.clock, options_.steady_clock),
        lock_(std::move(lock)),
        file_((options_.folder / kStoreFileName).string()),
        guard_(file_) {}

  Result<void> open();

  ~Impl();
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
  void poison(const sqlite::DamagedRows& rows, Function<void()> done);

  [[nodiscard]] Watchers& watchers() { return watchers_; }
  [[nodiscard]] StoreTime now() const { return clock_.now(); }
  [[nodiscard]] sqlite::Database connect() const { return sqlite::Database(file_, false, options_.vfs); }
  [[nodiscard]] sqlite::DamageLog& damage() { return damage_; }
  [[nodiscard]] sqlite::StoreGuard& guard() { return guard_; }
  [[nodiscard]] int lock_descriptor() const { return lock_.descriptor(); }

 private:
  using Calls = std::vector<std::unique_ptr<sqlite::Call>>;

  Result<void> open_file();

  void check_rows_from(std::uint64_t after);

  std::optional<Error> change(Calls& calls);

  void add_news(Calls& calls);

  std::optional<Error> change_together(Calls& calls);

  Error note(const sqlite::Failure& failure);

  Error roll_back(Error error);

  std::optional<Error> look(Calls& calls);

  const SqliteOptions options_;
  Watchers watchers_;
  sqlite::StoreClock clock_;
  sqlite::FolderLock lock_;
  const std::string file_;
  sqlite::StoreGuard guard_;
  bool is_new_anchor_ = false;
  sqlite::DamageLog damage_;
  std::unique_ptr<sqlite::Database> write_to_;
  std::unique_ptr<sqlite::Tables> tables_;
  std::unique_ptr<sqlite::Database> read_from_;
  std::unique_ptr<sqlite::Database> scan_;
  std::unique_ptr<sqlite::Worker> reader_;  // Ends before what it uses does.
  std::unique_ptr<sqlite::Worker> scanner_;
  std::unique_ptr<sqlite::Worker> writer_;
};

}  // namespace cohort
