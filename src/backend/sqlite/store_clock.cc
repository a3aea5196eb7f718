#include "backend/sqlite/store_clock.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

namespace cohort::sqlite {

namespace {

// A number for this start of the host. 0: unknown, and then no anchor is taken over.
std::int64_t host_boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::uint64_t hash = 0xcbf29ce484222325U;
  if (!std::getline(file, id)) return 0;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return static_cast<std::int64_t>(hash >> 1U);
}

std::optional<std::int64_t> number(Database& database, const char* name) {
  StatementLease row =
      database.prepare("SELECT value FROM numbers WHERE name = ? AND typeof(value) = 'integer' AND value >= 0");
  row->bind(name);
  return row->step() ? std::optional(row->integer(0)) : std::nullopt;
}

void set_number(Database& database, const char* name, std::int64_t value) {
  StatementLease row = database.prepare("INSERT OR REPLACE INTO numbers VALUES (?, ?)");
  row->bind(name).bind(value).run();
}

}  // namespace

StoreClock::StoreClock(const WallClock* wall, const Clock* boottime)
    : wall_(wall != nullptr ? *wall : system_wall_clock()),
      boottime_(boottime != nullptr ? *boottime : boottime_clock()) {}

bool StoreClock::open(Database& database) {
  const std::int64_t boot = host_boot();
  const Time now = boottime_.now();
  constexpr Duration kFarAhead = std::chrono::hours(24 * 365 * 20);
  const auto latest = saturating_add(wall_.now(), kFarAhead).time_since_epoch().count();
  const auto known_boot = number(database, "clock:boot");
  const auto boottime = number(database, "clock:boottime_ns");
  const auto steady = number(database, "clock:steady_us");
  if (boot != 0 && known_boot == boot && boottime && steady && *boottime <= now.time_since_epoch().count() &&
      *steady <= latest) {
    anchor_ = WallTime(std::chrono::microseconds(*steady));
    anchor_boottime_ = Time(Duration(*boottime));
    return false;
  }
  anchor_ = wall_.now();
  const auto last_wall = number(database, "clock:last_wall_us");
  const auto last_steady = number(database, "clock:last_steady_us");
  if (last_wall && last_steady && *last_wall <= latest && *last_steady <= latest) {
    anchor_ = std::max(WallTime(), anchor_ - std::chrono::microseconds(*last_wall - *last_steady));
  }
  anchor_boottime_ = now;
  database.execute("BEGIN IMMEDIATE");
  set_number(database, "clock:boot", boot);
  set_number(database, "clock:boottime_ns", now.time_since_epoch().count());
  set_number(database, "clock:steady_us", anchor_.time_since_epoch().count());
  database.execute("COMMIT");
  return true;
}

void StoreClock::note_offset(Database& database) {
  constexpr Duration kChange = std::chrono::seconds(1);
  const StoreTime time = now();
  const Duration offset = time.wall - time.steady;
  if (offset_ && offset - *offset_ < kChange && *offset_ - offset < kChange) return;
  set_number(database, "clock:last_wall_us", time.wall.time_since_epoch().count());
  set_number(database, "clock:last_steady_us", time.steady.time_since_epoch().count());
  offset_ = offset;
}

StoreTime StoreClock::now() const { return {wall_.now(), saturating_add(anchor_, boottime_.now() - anchor_boottime_)}; }

}  // namespace cohort::sqlite
