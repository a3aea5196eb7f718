#pragma once

#include <string>
#include <vector>

#include "backend/sqlite/database.h"
#include "backend/sqlite/task_row.h"
#include "cohort/store/task_store.h"
#include "store/store_time.h"

namespace cohort::sqlite {

/// Rows that a reader has found damaged: the writer is to look at them.
using DamagedRows = std::vector<std::uint64_t>;

/// Nothing: there is no such task, or its row is damaged and in `damaged`. "@7" names the task with sequence number 7.
/// kInvalid: a newer program has written it.
[[nodiscard]] Result<std::optional<ChainTask>> find_task(Database& database, const std::string& id, StoreTime now,
                                                         DamagedRows& damaged);
/// Looks at no more than kMaxScanned rows. A damaged row is shown as poison.
[[nodiscard]] TaskPage list_tasks(Database& database, const TaskFilter& filter, StoreTime now, DamagedRows& damaged);
inline constexpr std::uint32_t kMaxScanned = 5'000;

[[nodiscard]] std::vector<AttemptRecord> find_attempts(Database& database, std::uint64_t sequence, DamageLog& damage);
[[nodiscard]] std::vector<GroupWork> groups_with_work(Database& database, StoreTime now);
[[nodiscard]] std::vector<GroupControl> group_controls(Database& database, const std::string& after,
                                                       std::uint32_t limit);
[[nodiscard]] std::vector<HeldClaim> claims_of(Database& database, const std::string& boot);
[[nodiscard]] std::vector<GroupCounts> group_counts(Database& database, const std::string& after, std::uint32_t limit);
[[nodiscard]] GroupCounts group_count(Database& database, const std::string& group);
[[nodiscard]] StoreStats store_stats(Database& database);

/// Reads the rows of open tasks with a sequence number above `after`, some at a time, to find damaged ones. Gives where
/// to go on; 0: that was all.
[[nodiscard]] std::uint64_t check_rows(Database& database, std::uint64_t after, DamagedRows& damaged);

}  // namespace cohort::sqlite
