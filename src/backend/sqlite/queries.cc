#include "backend/sqlite/queries.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "backend/sqlite/schema.h"
#include "cohort/base/utf8.h"
#include "store/chain_rules.h"

namespace cohort::sqlite {

namespace {

// Steps from one group to the next through an index, so the number of tasks does not matter.
constexpr const char* kReadyGroups =
    "WITH RECURSIVE g(x) AS (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NULL UNION ALL "
    "SELECT (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NULL AND grp > g.x) FROM g WHERE g.x IS NOT "
    "NULL) SELECT x FROM g WHERE x IS NOT NULL AND NOT EXISTS (SELECT 1 FROM groups WHERE grp = x AND "
    "typeof(paused_since) = 'integer')";
constexpr const char* kDueGroups =
    "WITH RECURSIVE g(x) AS (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NOT NULL UNION ALL "
    "SELECT (SELECT min(grp) FROM tasks WHERE state = 1 AND due_at IS NOT NULL AND grp > g.x) FROM g "
    "WHERE g.x IS NOT NULL) SELECT x, "
    "(SELECT min(due_at) FROM tasks WHERE grp = x AND state = 1 AND due_at IS NOT NULL AND (due_after IS NOT NULL) = "
    "0), "
    "(SELECT min(due_at) FROM tasks WHERE grp = x AND state = 1 AND due_at IS NOT NULL AND (due_after IS NOT NULL) = "
    "1) "
    "FROM g WHERE x IS NOT NULL AND NOT EXISTS (SELECT 1 FROM groups WHERE grp = x AND typeof(paused_since) = "
    "'integer')";

// Times on the steady clock, as the time of day that they mean now. In whole seconds: two looks show the same.
ChainTask shown(ChainTask task, StoreTime now) {
  const auto offset = std::chrono::round<std::chrono::seconds>(now.wall - now.steady);
  const auto move = [&](WallTime& time) { time = saturating_add(time, Duration(offset)); };
  if (task.due_at && task.due_after) move(*task.due_at);
  if (task.deadline_after && (!task.due_at || task.due_after)) move(task.deadline_at);
  return task;
}

ChainTask stub_of(const Statement& row, const TaskRow& read) {
  ChainTask task;
  task.sequence = read.sequence;
  task.request.id = row.type(2) == SQLITE_TEXT && is_utf8(row.text(2)) && !row.text(2).empty()
                        ? row.text(2)
                        : "@" + std::to_string(read.sequence);
  task.request.group = row.type(3) == SQLITE_TEXT && is_utf8(row.text(3)) ? row.text(3) : "(damaged)";
  task.state = ChainState::kPoison;
  task.error = "its row cannot be read: " + read.damage;
  return task;
}

void add(GroupCounts& counts, std::int64_t state, std::int64_t n) {
  const auto number = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
  if (state == 0) counts.pending = number;
  if (state == 1) counts.ready = number;
  if (state == 2) counts.processing = number;
}

}  // namespace

Result<std::optional<ChainTask>> find_task(Database& database, const std::string& id, StoreTime now,
                                           DamagedRows& damaged) {
  static const std::string by_id = std::string("SELECT ") + kTaskColumns + kTaskTables + "WHERE t.id = ?";
  static const std::string by_sequence = std::string("SELECT ") + kTaskColumns + kTaskTables + "WHERE t.seq = ?";
  const bool is_sequence = is_sequence_reference(id);
  std::uint64_t sequence = 0;
  if (is_sequence) std::from_chars(id.data() + 1, id.data() + id.size(), sequence);
  StatementLease row = database.prepare(is_sequence ? by_sequence.c_str() : by_id.c_str());
  if (is_sequence) {
    row->bind(sequence);
  } else {
    row->bind(id);
  }
  if (!row->step()) return std::optional<ChainTask>();
  TaskRow read = read_task_row(*row);
  if (read.is_newer) return newer_format(read.sequence);
  if (read.damage.empty()) return std::optional(shown(std::move(read.task), now));
  damaged.push_back(read.sequence);
  return std::optional<ChainTask>();
}

namespace {

// Of rows with the columns of a summary.
void add_rows(Statement& rows, TaskPage& page, StoreTime now, DamagedRows& damaged, std::uint32_t& seen) {
  for (; rows.step(); ++seen) {
    TaskRow read = read_task_row(rows);
    page.next = read.sequence;
    if (read.is_newer) continue;
    if (!read.damage.empty()) {
      damaged.push_back(read.sequence);
      page.tasks.push_back(stub_of(rows, read));
      continue;
    }
    for (ChainStep& each : read.task.request.steps) each.parameters.clear();
    read.task.request.parameters = "{}";
    page.tasks.push_back(shown(std::move(read.task), now));
  }
}

TaskPage list_by_prefix(Database& database, const TaskFilter& filter, StoreTime now, DamagedRows& damaged) {
  static const std::string sql =
      std::string("SELECT ") + kSummaryColumns + kTaskTables +
      "WHERE t.seq IN (SELECT seq FROM tasks WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3) AND (?4 = '' OR t.grp = "
      "?4) AND (?5 < 0 OR t.state = ?5) AND (?6 = '' OR (json_valid(t.tags) AND EXISTS (SELECT 1 FROM "
      "json_each(t.tags) "
      "WHERE value = ?6))) ORDER BY t.id LIMIT ?7";
  std::string behind = filter.id_prefix;  // The first text that does not begin so. (An id is UTF-8: no byte is 255.)
  behind.back() = static_cast<char>(static_cast<unsigned char>(behind.back()) + 1);
  StatementLease rows = database.prepare(sql.c_str());
  rows->bind(filter.id_prefix).bind(behind).bind(kMaxScanned).bind(filter.group);
  rows->bind(filter.state ? static_cast<int>(*filter.state) : -1).bind(filter.tag).bind(filter.limit);
  TaskPage page;
  std::uint32_t seen = 0;
  add_rows(*rows, page, now, damaged, seen);
  page.next = 0;
  return page;
}

}  // namespace

// A page ends when it is full, or when enough rows were looked at.
TaskPage list_tasks(Database& database, const TaskFilter& filter, StoreTime now, DamagedRows& damaged) {
  static const std::string all = std::string("SELECT ") + kSummaryColumns + kTaskTables +
                                 "WHERE t.seq < ?1 AND t.seq >= ?2 AND (?3 < 0 OR t.state = ?3) AND (?4 = '' OR "
                                 "(json_valid(t.tags) AND EXISTS (SELECT 1 FROM json_each(t.tags) WHERE value = ?4))) "
                                 "ORDER BY t.seq DESC LIMIT ?5";
  static const std::string of_group =
      std::string("SELECT ") + kSummaryColumns + kTaskTables +
      "WHERE t.grp = ?6 AND t.seq < ?1 AND t.seq >= ?2 AND (?3 < 0 OR t.state = ?3) AND (?4 = '' OR "
      "(json_valid(t.tags) AND EXISTS (SELECT 1 FROM json_each(t.tags) WHERE value = ?4))) ORDER BY t.seq DESC LIMIT "
      "?5";
  if (!filter.id_prefix.empty()) return list_by_prefix(database, filter, now, damaged);
  const std::uint64_t before = filter.before != 0 ? filter.before : std::uint64_t{1} << 62U;
  // The lowest sequence number among the next kMaxScanned rows.
  std::uint64_t lowest = 0;
  {
    StatementLease row = database.prepare(
        filter.group.empty() ? "SELECT seq FROM tasks WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2"
                             : "SELECT seq FROM tasks WHERE grp = ?3 AND seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2");
    row->bind(before).bind(kMaxScanned);
    if (!filter.group.empty()) row->bind(filter.group);
    if (row->step()) lowest = static_cast<std::uint64_t>(row->integer(0));
  }
  StatementLease rows = database.prepare(filter.group.empty() ? all.c_str() : of_group.c_str());
  rows->bind(before).bind(lowest).bind(filter.state ? static_cast<int>(*filter.state) : -1).bind(filter.tag);
  rows->bind(filter.limit);
  if (!filter.group.empty()) rows->bind(filter.group);
  TaskPage page;
  std::uint32_t seen = 0;
  add_rows(*rows, page, now, damaged, seen);
  if (seen < filter.limit) page.next = lowest;
  return page;
}

std::vector<AttemptRecord> find_attempts(Database& database, std::uint64_t sequence, DamageLog& damage) {
  static const std::string sql =
      std::string("SELECT ") + kAttemptColumns + " FROM attempts WHERE seq = ? ORDER BY number";
  StatementLease rows = database.prepare(sql.c_str());
  rows->bind(sequence);
  return read_rows<AttemptRecord>(*rows, kMaxAttempts, "attempts of @" + std::to_string(sequence), read_attempt,
                                  damage);
}

std::vector<GroupWork> groups_with_work(Database& database, StoreTime now) {
  std::vector<GroupWork> work;
  StatementLease ready = database.prepare(kReadyGroups);
  while (ready->step()) work.push_back({ready->text(0), std::nullopt});
  StatementLease due = database.prepare(kDueGroups);
  while (due->step()) {
    std::optional<Duration> next;
    for (const auto& [column, time] : {std::pair{1, now.wall}, std::pair{2, now.steady}}) {
      if (due->type(column) != SQLITE_INTEGER) continue;
      const Duration in = chain_rules::time_until(WallTime(std::chrono::microseconds(due->integer(column))), time);
      next = std::min(next.value_or(in), in);
    }
    work.push_back({due->text(0), next.value_or(Duration::zero())});
  }
  return work;
}

std::vector<GroupControl> group_controls(Database& database, const std::string& after, std::uint32_t limit) {
  StatementLease rows = database.prepare(
      "SELECT grp, typeof(paused_since) = 'integer', limits, version FROM groups WHERE grp > ?1 AND format <= ?2 AND "
      "(typeof(paused_since) = 'integer' OR (typeof(limits) = 'text' AND limits <> '')) ORDER BY grp LIMIT ?3");
  rows->bind(after).bind(row_format()).bind(limit);
  std::vector<GroupControl> found;
  while (rows->step()) {
    found.push_back({rows->text(0), rows->integer(1) != 0, rows->type(2) == SQLITE_TEXT ? rows->text(2) : "",
                     static_cast<std::uint64_t>(std::max<std::int64_t>(rows->integer(3), 0))});
  }
  return found;
}

std::vector<HeldClaim> claims_of(Database& database, const std::string& boot) {
  StatementLease rows = database.prepare(
      "SELECT id, epoch, claim_id, writes, cancel_requested FROM tasks WHERE owner = ? AND state IN (1, 2) AND state = "
      "2 AND format <= ?");
  rows->bind(boot).bind(row_format());
  std::vector<HeldClaim> found;
  while (rows->step()) {
    found.push_back({rows->text(0), static_cast<std::uint64_t>(rows->integer(1)), rows->text(2),
                     static_cast<std::uint64_t>(rows->integer(3)), rows->integer(4) != 0});
  }
  return found;
}

std::vector<GroupCounts> group_counts(Database& database, const std::string& after, std::uint32_t limit) {
  std::map<std::string, GroupCounts> found;
  {
    StatementLease rows = database.prepare(
        "SELECT grp, state, n FROM counts WHERE grp > ? AND typeof(n) = 'integer' AND n > 0 ORDER BY grp, state");
    rows->bind(after);
    while (rows->step()) {
      std::string group = rows->text(0);
      if (found.size() == limit && !found.contains(group)) break;
      add(found[std::move(group)], rows->integer(1), rows->integer(2));
    }
  }
  {
    StatementLease rows = database.prepare(
        "SELECT grp FROM groups WHERE grp > ? AND typeof(paused_since) = 'integer' ORDER BY grp LIMIT ?");
    rows->bind(after).bind(limit);
    while (rows->step()) found[rows->text(0)].paused = true;
  }
  std::vector<GroupCounts> counts;
  for (auto& [group, count] : found) {
    if (counts.size() == limit) break;
    count.group = group;
    counts.push_back(std::move(count));
  }
  return counts;
}

GroupCounts group_count(Database& database, const std::string& group) {
  GroupCounts counts{.group = group};
  StatementLease rows = database.prepare("SELECT state, n FROM counts WHERE grp = ? AND typeof(n) = 'integer'");
  rows->bind(group);
  while (rows->step()) add(counts, rows->integer(0), rows->integer(1));
  StatementLease paused = database.prepare("SELECT 1 FROM groups WHERE grp = ? AND typeof(paused_since) = 'integer'");
  paused->bind(group);
  counts.paused = paused->step();
  return counts;
}

StoreStats store_stats(Database& database) {
  StoreStats stats;
  StatementLease rows = database.prepare("SELECT state, n FROM counts WHERE grp = '' AND typeof(n) = 'integer'");
  while (rows->step()) {
    const std::int64_t state = rows->integer(0);
    const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(rows->integer(1), 0));
    if (state == kLetterCount) stats.dead_letters = n;
    if (rows->type(0) == SQLITE_INTEGER && state >= 0 && state < std::int64_t{kChainStates}) stats.tasks[state] = n;
  }
  // Events have consecutive numbers, and the oldest go first.
  stats.events = static_cast<std::uint64_t>(std::max<std::int64_t>(
      0, database.value("SELECT coalesce((SELECT max(seq) FROM events) - (SELECT min(seq) FROM events) + 1, 0)")));
  stats.last_event = static_cast<std::uint64_t>(std::max<std::int64_t>(
      0, database.value("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)")));
  return stats;
}

std::uint64_t check_rows(Database& database, std::uint64_t after, DamagedRows& damaged) {
  constexpr std::uint64_t kAtOnce = 2'000;
  static const std::string sql =
      std::string("SELECT ") + kTaskColumns + kTaskTables +
      "WHERE t.seq > ?1 AND t.seq <= ?2 AND (t.ended_at IS NULL OR t.state NOT BETWEEN 3 AND "
      "7 OR typeof(t.state) <> 'integer') ORDER BY t.seq";
  std::uint64_t last = 0;
  {
    StatementLease row =
        database.prepare("SELECT max(seq) FROM (SELECT seq FROM tasks WHERE seq > ? ORDER BY seq LIMIT ?)");
    row->bind(after).bind(kAtOnce);
    if (!row->step() || row->is_null(0)) return 0;
    last = static_cast<std::uint64_t>(row->integer(0));
  }
  StatementLease rows = database.prepare(sql.c_str());
  rows->bind(after).bind(last);
  while (rows->step()) {
    const TaskRow read = read_task_row(*rows);
    if (!read.damage.empty()) damaged.push_back(read.sequence);
  }
  return last;
}

}  // namespace cohort::sqlite
