#pragma once

#include "backend/sqlite/database.h"
#include "cohort/base/wall_clock.h"
#include "store/store_time.h"

namespace cohort::sqlite {

/// Tells the time by both clocks of a store.
///
/// The steady clock is anchored in the file: (host boot, CLOCK_BOOTTIME, steady time). As long as the host has not been
/// started anew, a later process goes on from there and no jump of the wall clock is seen, not even one while no node
/// ran. After a start of the host, the steady clock goes on as far from the wall clock as it was last.
///
/// Thread-safety: now() is thread-safe after open().
class StoreClock {
 public:
  /// Null: the system's clocks.
  StoreClock(const WallClock* wall, const Clock* boottime);

  /// Takes over the anchor of the file, or writes a new one: then true.
  bool open(Database& database);
  /// Writes how far the two clocks are apart, if that has changed by more than a second. Within a transaction.
  void note_offset(Database& database);
  [[nodiscard]] StoreTime now() const;

 private:
  const WallClock& wall_;
  const Clock& boottime_;
  WallTime anchor_{};
  Time anchor_boottime_{};
  std::optional<Duration> offset_;  // Wall minus steady, as the file has it.
};

}  // namespace cohort::sqlite
