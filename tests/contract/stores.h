#pragma once

// The stores that the suites run on.

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "backend/sqlite/store_test_fixture.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/testing/memory_store.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"

namespace cohort {

/// A store on a clock that the test moves.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  [[nodiscard]] virtual TaskStore& store() = 0;
  /// As after the end of the process: what was acknowledged is there.
  virtual void restart() = 0;

  /// The time of the store's clock.
  [[nodiscard]] virtual WallTime now() { return wall.now(); }
  /// How far the store's clock may have gone on by itself since the test began.
  [[nodiscard]] virtual Duration slack() const { return Duration::zero(); }
  /// Lengths and times of day have different clocks.
  [[nodiscard]] virtual bool has_two_clocks() const { return true; }
  /// A submit on another way than through the store. Nothing: the way cannot express this one.
  [[nodiscard]] virtual std::optional<Result<Submitted>> submit_otherwise(const NewTask&) { return std::nullopt; }

  VirtualClock clock;
  VirtualWallClock wall{clock};
};

class MemoryStoreWorld final : public StoreWorld {
 public:
  [[nodiscard]] TaskStore& store() override { return store_; }
  void restart() override {}

 private:
  MemoryStore store_{wall, {.steady = &clock}};
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
    store_ = std::move(*SqliteStore::open({.folder = folder_.path(),
                                           .synchronous = SqliteOptions::Synchronous::kOff,
                                           .clock = &wall,
                                           .steady_clock = &clock}));
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<SqliteStore> store_;
};

}  // namespace cohort
