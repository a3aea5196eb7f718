#pragma once

// The stores that the suites run on, and calls that wait for their answer.

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/testing/memory_store.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"

namespace cohort {

/// A folder of its own under the system's place for temporary files, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Makes a call of a store and waits for its answer: wait<Written>([&](auto done) { store.cancel(id, "", done); }).
template <class T, class Call>
Result<T> wait(Call&& call) {
  std::promise<Result<T>> answered;
  std::future<Result<T>> answer = answered.get_future();
  call(Completion<T>([&](Result<T> result) { answered.set_value(std::move(result)); }));
  return answer.get();
}

/// A store on a clock that the test moves.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  [[nodiscard]] virtual TaskStore& store() = 0;
  /// As after the end of the process: what was acknowledged is there.
  virtual void restart() = 0;

  VirtualClock clock;
  VirtualWallClock wall{clock};
};

class MemoryStoreWorld final : public StoreWorld {
 public:
  [[nodiscard]] TaskStore& store() override { return store_; }
  void restart() override {}

 private:
  MemoryStore store_{wall};
};

class SqliteStoreWorld final : public StoreWorld {
 public:
  SqliteStoreWorld() { restart(); }
  [[nodiscard]] TaskStore& store() override { return *store_; }
  [[nodiscard]] SqliteStore& sqlite() { return *store_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  void restart() override {
    store_.reset();
    // Not for its durability, which the crash tests are about, but for the time it takes.
    store_ = std::move(*SqliteStore::open(
        {.folder = folder_.path(), .synchronous = SqliteOptions::Synchronous::kOff, .clock = &wall}));
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<SqliteStore> store_;
};

}  // namespace cohort
