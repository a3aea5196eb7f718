// Part of PostgresStore: what is only looked at.

#include <charconv>
#include <map>
#include <utility>

#include "backend/postgres/postgres_store_impl.h"
#include "backend/task_text.h"

namespace cohort {

using postgres::Parameters;
using postgres::Query;
using postgres::ResultRef;
using postgres::Row;
using postgres::rows_of;
using postgres::Statement;

namespace {

constexpr std::int64_t kMaxScanned = 5'000;

const std::string kTables = " FROM tasks t LEFT JOIN bodies b ON b.seq = t.seq ";
const std::string kNowSql = "((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ";

const Statement kGetById = {
    "get_by_id", postgres::kept_sql("SELECT " + postgres::task_columns_sql(true) + kTables + "WHERE t.id = $1::text")};
const Statement kGetBySequence = {"get_by_seq", postgres::kept_sql("SELECT " + postgres::task_columns_sql(true) +
                                                                   kTables + "WHERE t.seq = $1::bigint")};
const Statement kClaimsOf = {
    "claims_of",
    "SELECT id, epoch, claim_id, writes, cancel_requested FROM tasks WHERE owner = $1::text AND state IN (1, 2) AND "
    "state = 2 AND format <= $2::bigint"};
// Steps from one group to the next through an index, so the number of tasks does not matter.
const Statement kWork = {
    "work",
    postgres::kept_sql(
        "WITH RECURSIVE ready(grp) AS ((SELECT grp FROM tasks WHERE state = 1 AND due_at IS NULL ORDER BY grp LIMIT 1) "
        "UNION ALL SELECT (SELECT t.grp FROM tasks t WHERE t.state = 1 AND t.due_at IS NULL AND t.grp > ready.grp "
        "ORDER "
        "BY t.grp LIMIT 1) FROM ready WHERE ready.grp IS NOT NULL), due(grp) AS ((SELECT grp FROM tasks WHERE state = "
        "1 "
        "AND due_at IS NOT NULL ORDER BY grp LIMIT 1) UNION ALL SELECT (SELECT t.grp FROM tasks t WHERE t.state = 1 "
        "AND "
        "t.due_at IS NOT NULL AND t.grp > due.grp ORDER BY t.grp LIMIT 1) FROM due WHERE due.grp IS NOT NULL), found "
        "AS "
        "(SELECT grp, NULL::bigint AS at FROM ready WHERE grp IS NOT NULL UNION ALL SELECT grp, (SELECT min(t.due_at) "
        "FROM tasks t WHERE t.state = 1 AND t.due_at IS NOT NULL AND t.grp = due.grp) FROM due WHERE grp IS NOT NULL) "
        "SELECT f.grp, f.at, " +
        kNowSql +
        "$1::bigint) FROM found f WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.grp = f.grp AND g.paused_since IS "
        "NOT NULL)")};
const Statement kControls = {"controls",
                             "SELECT grp, paused_since IS NOT NULL, limits, version FROM groups WHERE grp > $1::text "
                             "AND format <= $3::bigint AND "
                             "(paused_since IS NOT NULL OR limits <> '') ORDER BY grp LIMIT $2::bigint"};
const Statement kAttempts = {
    "attempts",
    "SELECT t.id, a.number, a.step, a.attempt, a.plugin, a.node, a.began_at, a.ended_at, a.outcome, a.error, a.log "
    "FROM "
    "tasks t LEFT JOIN attempts a ON a.seq = t.seq AND a.format <= $2::bigint WHERE t.id = $1::text ORDER BY a.number"};

std::string list_sql(const std::string& source) {
  return "SELECT " + postgres::summary_columns_sql() + kTables + "WHERE " + source +
         " AND ($1::text = '' OR t.grp = $1::text) AND ($2::bigint < 0 OR t.state = $2::bigint) AND ($3::text = '' OR "
         "t.tags::jsonb ? $3::text) ";
}

const Statement kLowest = {
    "lowest",
    "SELECT coalesce((SELECT seq FROM tasks WHERE seq < $2::bigint AND ($1::text = '' OR grp = $1::text) ORDER BY seq "
    "DESC LIMIT 1 OFFSET $3::bigint), 0)"};
const Statement kList = {"list", postgres::kept_sql(list_sql("t.seq < $4::bigint AND t.seq >= $5::bigint") +
                                                    "ORDER BY t.seq DESC LIMIT $6::bigint")};
const Statement kListByPrefix = {
    "list_by_prefix",
    postgres::kept_sql(
        list_sql("t.seq IN (SELECT seq FROM tasks WHERE id >= $4::text AND id < $5::text ORDER BY id LIMIT 5000)") +
        "ORDER BY t.id LIMIT $6::bigint")};

constexpr const char* kLetterSql =
    "SELECT task_id, grp, message_id, state, reason, plugin, step, attempts, failed_at, node, progress, log, original "
    "FROM dead_letters WHERE format <= $1::bigint AND ";
const Statement kLetters = {
    "letters", postgres::kept_sql(std::string(kLetterSql) + "task_id > $2::text ORDER BY task_id LIMIT $3::bigint")};
const Statement kLetter = {"letter", postgres::kept_sql(std::string(kLetterSql) + "task_id = $2::text")};
const Statement kEvents = {
    "events",
    "SELECT number, ordinal, at, kind, task_id, grp, step, detail FROM events WHERE number > $1::bigint AND format <= "
    "$3::bigint ORDER BY number LIMIT $2::bigint"};
const Statement kGroupCounts = {
    "group_counts",
    "WITH RECURSIVE open(grp, place) AS ((SELECT grp, 1 FROM tasks WHERE state IN (0, 1, 2) AND grp > $1::text ORDER "
    "BY "
    "grp LIMIT 1) UNION ALL SELECT (SELECT t.grp FROM tasks t WHERE t.state IN (0, 1, 2) AND t.grp > open.grp ORDER BY "
    "t.grp LIMIT 1), place + 1 FROM open WHERE open.grp IS NOT NULL AND place < $2::bigint), names AS (SELECT grp FROM "
    "open WHERE grp IS NOT NULL UNION SELECT grp FROM groups WHERE grp > $1::text AND paused_since IS NOT NULL ORDER "
    "BY "
    "grp LIMIT $2::bigint) SELECT n.grp, c.state, c.n, EXISTS (SELECT 1 FROM groups g WHERE g.grp = n.grp AND "
    "g.paused_since IS NOT NULL) FROM names n LEFT JOIN LATERAL (SELECT state::bigint, count(*) AS n FROM tasks WHERE "
    "grp = n.grp AND state IN (0, 1, 2) GROUP BY state) AS c ON true ORDER BY n.grp"};
const Statement kGroupCount = {
    "group_count",
    "SELECT $1::text, c.state, c.n, EXISTS (SELECT 1 FROM groups g WHERE g.grp = $1::text AND g.paused_since IS NOT "
    "NULL) "
    "FROM (SELECT 1) AS one LEFT JOIN LATERAL (SELECT state::bigint, count(*) AS n FROM tasks WHERE grp = $1::text AND "
    "state IN (0, 1, 2) GROUP BY state) AS c ON true"};
const Statement kStats = {"stats",
                          "SELECT state::bigint, count(*) FROM tasks GROUP BY state UNION ALL SELECT 100, count(*) "
                          "FROM dead_letters UNION ALL "
                          "SELECT 101, count(*) FROM events WHERE number IS NOT NULL UNION ALL SELECT 102, last_number "
                          "FROM leaders WHERE name "
                          "= 'events'"};
const Statement kCursor = {"cursor", "SELECT value FROM numbers WHERE name = $1::text"};

Error no_such_task(const std::string& id) { return {ErrorCode::kNotFound, "there is no task '" + id + "'"}; }

DeadLetter letter_in(Row row) {
  DeadLetter letter;
  letter.task_id = row.text();
  letter.group = row.text();
  letter.message_id = row.text();
  letter.state = static_cast<ChainState>(row.integer());
  letter.reason = row.text();
  letter.plugin = row.text();
  letter.step = row.count();
  letter.attempts = row.count();
  letter.failed_at = row.time();
  letter.node = row.text();
  letter.progress = row.real();
  letter.log = backend::read_lines(row.text());
  letter.original = row.text();
  return letter;
}

// Rows of one group follow one another, one for each state.
std::vector<GroupCounts> counts_in(const ResultRef& result) {
  std::vector<GroupCounts> counts;
  for (int i = 0; i < rows_of(result); ++i) {
    Row row(result.get(), i);
    std::string group = row.text();
    if (counts.empty() || counts.back().group != group) counts.push_back({.group = std::move(group)});
    GroupCounts& of = counts.back();
    if (row.is_null()) {
      row.skip();
      row.skip();
    } else {
      const std::int64_t state = row.integer();
      (state == 0 ? of.pending : state == 1 ? of.ready : of.processing) = row.number();
    }
    of.paused = row.flag();
  }
  return counts;
}

ChainTask shown(postgres::TaskRow read) {
  if (read.damage.empty()) return std::move(read.task);
  ChainTask stub;
  stub.sequence = read.sequence;
  stub.request.id = read.task.request.id;
  stub.request.group = read.task.request.group;
  stub.state = ChainState::kPoison;
  stub.error = "its row cannot be read: " + read.damage;
  return stub;
}

}  // namespace

void PostgresStore::get(std::string task_id, Completion<ChainTask> done) {
  Query query{&kGetById, {}};
  if (is_sequence_reference(task_id)) {
    std::uint64_t sequence = 0;
    std::from_chars(task_id.data() + 1, task_id.data() + task_id.size(), sequence);
    query = {&kGetBySequence, std::move(Parameters().add(sequence))};
  } else {
    query.parameters.add(task_id);
  }
  impl_->read<ChainTask>(Impl::Line::kRows, std::move(query), std::move(done),
                         [task_id, format = impl_->format()](const ResultRef& result) -> Result<ChainTask> {
                           if (rows_of(result) == 0) return no_such_task(task_id);
                           Row row(result.get(), 0);
                           postgres::TaskRow read = postgres::read_task(row, format);
                           if (!read.is_newer) return shown(std::move(read));
                           return Error{ErrorCode::kConflict,
                                        "task '" + task_id +
                                            "' was written by a newer version of Cohort; this one "
                                            "leaves it alone"};
                         });
}

void PostgresStore::claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) {
  impl_->read<std::vector<HeldClaim>>(Impl::Line::kRows,
                                      {&kClaimsOf, std::move(Parameters().add(boot).add(impl_->format()))},
                                      std::move(done), [](const ResultRef& result) -> Result<std::vector<HeldClaim>> {
                                        std::vector<HeldClaim> claims;
                                        for (int i = 0; i < rows_of(result); ++i) {
                                          Row row(result.get(), i);
                                          HeldClaim& claim = claims.emplace_back();
                                          claim.task_id = row.text();
                                          claim.epoch = row.number();
                                          claim.claim_id = row.text_or_null();
                                          claim.writes = row.number();
                                          claim.cancel_requested = row.flag();
                                        }
                                        return claims;
                                      });
}

void PostgresStore::groups_with_work(Completion<std::vector<GroupWork>> done) {
  impl_->read<std::vector<GroupWork>>(Impl::Line::kRows, {&kWork, std::move(Parameters().add(impl_->offset_us()))},
                                      std::move(done), [](const ResultRef& result) -> Result<std::vector<GroupWork>> {
                                        std::vector<GroupWork> work;
                                        for (int i = 0; i < rows_of(result); ++i) {
                                          Row row(result.get(), i);
                                          GroupWork& each = work.emplace_back();
                                          each.group = row.text();
                                          const std::optional<WallTime> due = row.time_or_null();
                                          if (due) each.next_in = chain_rules::time_until(*due, row.time());
                                        }
                                        return work;
                                      });
}

void PostgresStore::controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) {
  impl_->read<std::vector<GroupControl>>(
      Impl::Line::kRows, {&kControls, std::move(Parameters().add(after).add(limit).add(impl_->format()))},
      std::move(done), [](const ResultRef& result) -> Result<std::vector<GroupControl>> {
        std::vector<GroupControl> controls;
        for (int i = 0; i < rows_of(result); ++i) {
          Row row(result.get(), i);
          GroupControl& control = controls.emplace_back();
          control.group = row.text();
          control.paused = row.flag();
          control.limits = row.text();
          control.version = row.number();
        }
        return controls;
      });
}

void PostgresStore::attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) {
  impl_->read<std::vector<AttemptRecord>>(
      Impl::Line::kRows, {&kAttempts, std::move(Parameters().add(task_id).add(impl_->format()))}, std::move(done),
      [task_id](const ResultRef& result) -> Result<std::vector<AttemptRecord>> {
        if (rows_of(result) == 0) return no_such_task(task_id);
        std::vector<AttemptRecord> attempts;
        for (int i = 0; i < rows_of(result); ++i) {
          Row row(result.get(), i);
          row.skip();
          if (row.is_null()) break;  // It has had none.
          AttemptRecord& attempt = attempts.emplace_back();
          attempt.number = row.count();
          attempt.step = row.count();
          attempt.attempt = row.count();
          attempt.plugin = row.text();
          attempt.node = row.text();
          attempt.began_at = row.time();
          attempt.ended_at = row.time();
          attempt.outcome = row.text();
          attempt.error = row.text();
          attempt.log = backend::read_lines(row.text());
        }
        return attempts;
      });
}

void PostgresStore::list(TaskFilter filter, Completion<TaskPage> done) {
  const auto read_rows = [limit = filter.limit, format = impl_->format()](const ResultRef& result,
                                                                          std::uint64_t lowest) {
    TaskPage page;
    for (int i = 0; i < rows_of(result); ++i) {
      Row row(result.get(), i);
      postgres::TaskRow read = postgres::read_task(row, format);
      page.next = read.sequence;
      if (read.is_newer) continue;
      ChainTask task = shown(std::move(read));
      for (ChainStep& each : task.request.steps) each.parameters.clear();
      task.request.parameters = "{}";
      page.tasks.push_back(std::move(task));
    }
    if (static_cast<std::uint32_t>(rows_of(result)) < limit) page.next = lowest;
    return page;
  };
  const std::int64_t state = filter.state ? static_cast<std::int64_t>(*filter.state) : -1;
  Parameters filters;
  filters.add(filter.group).add(state).add(filter.tag);
  if (!filter.id_prefix.empty()) {
    std::string behind = filter.id_prefix;  // The first text that does not begin so, by its bytes.
    while (!behind.empty() && static_cast<unsigned char>(behind.back()) >= 0x7F) behind.pop_back();
    if (behind.empty()) {
      behind = "\xF4\x8F\xBF\xBF";
    } else {
      behind.back() = static_cast<char>(behind.back() + 1);
    }
    filters.add(filter.id_prefix).add(behind).add(filter.limit);
    return impl_->read<TaskPage>(Impl::Line::kScans, {&kListByPrefix, std::move(filters)}, std::move(done),
                                 [read_rows](const ResultRef& result) -> Result<TaskPage> {
                                   TaskPage page = read_rows(result, 0);
                                   page.next = 0;
                                   return page;
                                 });
  }
  // The lowest sequence number among the next kMaxScanned rows; then the page.
  const std::uint64_t before = filter.before != 0 ? filter.before : std::uint64_t{1} << 62U;
  Parameters lowest_of;
  lowest_of.add(filter.group).add(before).add(kMaxScanned);
  impl_->read<std::uint64_t>(
      Impl::Line::kScans, {&kLowest, std::move(lowest_of)},
      [this, filters = std::move(filters), before, limit = filter.limit, read_rows,
       done = std::move(done)](Result<std::uint64_t> lowest) mutable {
        if (!lowest) return done(lowest.error());
        filters.add(before).add(*lowest).add(limit);
        impl_->read<TaskPage>(Impl::Line::kScans, {&kList, std::move(filters)}, std::move(done),
                              [read_rows, lowest = *lowest](const ResultRef& result) -> Result<TaskPage> {
                                return read_rows(result, lowest);
                              });
      },
      [](const ResultRef& result) -> Result<std::uint64_t> { return Row(result.get(), 0).number(); });
}

void PostgresStore::dead_letters(std::string after_task, std::uint32_t limit,
                                 Completion<std::vector<DeadLetter>> done) {
  impl_->read<std::vector<DeadLetter>>(
      Impl::Line::kScans, {&kLetters, std::move(Parameters().add(impl_->format()).add(after_task).add(limit))},
      std::move(done), [](const ResultRef& result) -> Result<std::vector<DeadLetter>> {
        std::vector<DeadLetter> letters;
        for (int i = 0; i < rows_of(result); ++i) {
          // One that cannot be read is left out; asked for alone, it is an error.
          Result<DeadLetter> letter =
              postgres::guarded([&] { return Result<DeadLetter>(letter_in(Row(result.get(), i))); });
          if (letter) letters.push_back(*std::move(letter));
        }
        return letters;
      });
}

void PostgresStore::dead_letter(std::string task_id, Completion<DeadLetter> done) {
  impl_->read<DeadLetter>(Impl::Line::kRows, {&kLetter, std::move(Parameters().add(impl_->format()).add(task_id))},
                          std::move(done), [task_id](const ResultRef& result) -> Result<DeadLetter> {
                            if (rows_of(result) == 0)
                              return Error{ErrorCode::kNotFound, "task '" + task_id + "' has no dead letter"};
                            return letter_in(Row(result.get(), 0));
                          });
}

void PostgresStore::events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) {
  impl_->read<std::vector<ChainEvent>>(Impl::Line::kRows,
                                       {&kEvents, std::move(Parameters().add(after).add(limit).add(impl_->format()))},
                                       std::move(done), [](const ResultRef& result) -> Result<std::vector<ChainEvent>> {
                                         std::vector<ChainEvent> events;
                                         for (int i = 0; i < rows_of(result); ++i) {
                                           Row row(result.get(), i);
                                           ChainEvent event;
                                           event.sequence = row.number();
                                           event.ordinal = row.number();
                                           event.at = row.time();
                                           const std::optional<EventKind> kind = event_kind_of(row.text());
                                           if (!kind) continue;
                                           event.kind = *kind;
                                           event.task_id = row.text();
                                           event.group = row.text();
                                           event.step = row.count();
                                           event.detail = row.text();
                                           events.push_back(std::move(event));
                                         }
                                         return events;
                                       });
}

void PostgresStore::group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) {
  impl_->read<std::vector<GroupCounts>>(
      Impl::Line::kScans, {&kGroupCounts, std::move(Parameters().add(after).add(limit))}, std::move(done),
      [](const ResultRef& result) -> Result<std::vector<GroupCounts>> { return counts_in(result); });
}

void PostgresStore::group_count(std::string group, Completion<GroupCounts> done) {
  impl_->read<GroupCounts>(Impl::Line::kRows, {&kGroupCount, std::move(Parameters().add(group))}, std::move(done),
                           [](const ResultRef& result) -> Result<GroupCounts> { return counts_in(result).at(0); });
}

void PostgresStore::stats(Completion<StoreStats> done) {
  impl_->read<StoreStats>(Impl::Line::kScans, {&kStats, {}}, std::move(done),
                          [](const ResultRef& result) -> Result<StoreStats> {
                            StoreStats stats;
                            for (int i = 0; i < rows_of(result); ++i) {
                              Row row(result.get(), i);
                              const std::int64_t what = row.integer();
                              const std::uint64_t n = row.number();
                              if (what < std::int64_t{kChainStates}) stats.tasks[what] = n;
                              if (what == 100) stats.dead_letters = n;
                              if (what == 101) stats.events = n;
                              if (what == 102) stats.last_event = n;
                            }
                            return stats;
                          });
}

void PostgresStore::cursor(std::string name, Completion<std::uint64_t> done) {
  impl_->read<std::uint64_t>(Impl::Line::kRows, {&kCursor, std::move(Parameters().add("cursor:" + name))},
                             std::move(done), [](const ResultRef& result) -> Result<std::uint64_t> {
                               return rows_of(result) == 0 ? 0 : Row(result.get(), 0).number();
                             });
}

}  // namespace cohort
