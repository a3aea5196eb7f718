#include "backend/postgres/task_columns.h"

#include <array>

#include "backend/task_text.h"

namespace cohort::postgres {

namespace {

// A kept row always has a time: it is claimed through the index of those that have one.
std::optional<WallTime> due_column(const ChainTask& task) {
  return task.kept_until ? std::optional(task.due_at.value_or(WallTime())) : task.due_at;
}
std::optional<Duration> due_after_column(const ChainTask& task) {
  return task.kept_until && !task.due_at ? std::optional(Duration::zero()) : task.due_after;
}

std::string_view plugin_column(const ChainTask& task) {
  const ChainStep* const step = task.current_step();
  return step != nullptr ? std::string_view(step->plugin) : std::string_view();
}

#define COHORT_NUMBER(member)                                                      \
  #member, Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.number(); }
#define COHORT_COUNT(member)                                                       \
  #member, Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.count(); }
#define COHORT_FLAG(member)                                                     \
  #member, Type::kBool, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.flag(); }
#define COHORT_TEXT(member)                                                     \
  #member, Type::kText, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.text(); }
#define COHORT_TIME(member)                                                        \
  #member, Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.time(); }
#define COHORT_TIME_OR_NULL(member)                                                \
  #member, Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.time_or_null(); }
#define COHORT_LENGTH(member)                                                      \
  #member, Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.member); }, \
      [](Row& r, ChainTask& t) { t.member = r.duration(); }

constexpr std::array kColumns = std::to_array<TaskColumn>({
    {"id", Type::kText, [](Column& c, const ChainTask& t) { c.add(t.id()); },
     [](Row& r, ChainTask& t) { t.request.id = r.text(); }, false},
    {"grp", Type::kText, [](Column& c, const ChainTask& t) { c.add(t.request.group); },
     [](Row& r, ChainTask& t) { t.request.group = r.text(); }, false},
    {"owner", Type::kText, [](Column& c, const ChainTask& t) { c.add_text_or_null(t.owner); },
     [](Row& r, ChainTask& t) { t.owner = r.text_or_null(); }},
    {COHORT_NUMBER(epoch)},
    {"priority", Type::kInteger,
     [](Column& c, const ChainTask& t) { c.add(static_cast<std::int64_t>(t.request.priority)); },
     [](Row& r, ChainTask& t) { t.request.priority = static_cast<Priority>(r.integer()); }, false, "::smallint"},
    {COHORT_TIME(created_at), false},
    {"tags", Type::kText, [](Column& c, const ChainTask& t) { c.add(backend::lines_text(t.request.tags)); },
     [](Row& r, ChainTask& t) { t.request.tags = backend::read_lines(r.text()); }, false},
    {"idempotency_key", Type::kText,
     [](Column& c, const ChainTask& t) { c.add_text_or_null(t.request.idempotency_key); },
     [](Row& r, ChainTask& t) { t.request.idempotency_key = r.text_or_null(); }, false},
    {"state", Type::kInteger, [](Column& c, const ChainTask& t) { c.add(static_cast<std::int64_t>(t.state)); },
     [](Row& r, ChainTask& t) { t.state = static_cast<ChainState>(r.integer()); }, true, "::smallint"},
    {"plugin", Type::kText, [](Column& c, const ChainTask& t) { c.add(plugin_column(t)); },
     [](Row& r, ChainTask&) { r.skip(); }},
    {"due_at", Type::kInteger, [](Column& c, const ChainTask& t) { c.add(due_column(t)); },
     [](Row& r, ChainTask& t) { t.due_at = r.time_or_null(); }},
    {"due_after", Type::kInteger, [](Column& c, const ChainTask& t) { c.add(due_after_column(t)); },
     [](Row& r, ChainTask& t) { t.due_after = r.duration_or_null(); }},
    {COHORT_TIME_OR_NULL(kept_until)},
    {COHORT_NUMBER(writes)},
    {"claim_id", Type::kText, [](Column& c, const ChainTask& t) { c.add_text_or_null(t.claim_id); },
     [](Row& r, ChainTask& t) { t.claim_id = r.text_or_null(); }},
    {COHORT_COUNT(step)},
    {COHORT_COUNT(attempt)},
    {COHORT_COUNT(failures)},
    {COHORT_FLAG(attempt_open)},
    {COHORT_TIME_OR_NULL(attempt_began_at)},
    {COHORT_COUNT(attempt_lines)},
    {COHORT_COUNT(attempts_made)},
    {COHORT_FLAG(alone)},
    {"crashes", Type::kText, [](Column& c, const ChainTask& t) { c.add(backend::lines_text(t.crashes)); },
     [](Row& r, ChainTask& t) { t.crashes = backend::read_lines(r.text()); }},
    {COHORT_TEXT(died_alone_with)},
    {COHORT_FLAG(suspect)},
    {COHORT_LENGTH(ran)},
    {COHORT_TIME(deadline_at)},
    {"deadline_after", Type::kInteger, [](Column& c, const ChainTask& t) { c.add(t.deadline_after); },
     [](Row& r, ChainTask& t) { t.deadline_after = r.duration_or_null(); }},
    {COHORT_TIME_OR_NULL(started_at)},
    {COHORT_TIME_OR_NULL(ended_at)},
    {COHORT_LENGTH(held_before)},
    {COHORT_FLAG(cancel_requested)},
    {COHORT_TEXT(message_id)},
    {COHORT_NUMBER(events_made)},
    {"progress", Type::kReal, [](Column& c, const ChainTask& t) { c.add(t.progress); },
     [](Row& r, ChainTask& t) { t.progress = r.real(); }},
    {COHORT_TEXT(progress_note)},
    {COHORT_TEXT(error)},
});

std::string row_columns() {
  std::string sql = "t.seq, t.format";
  for (const TaskColumn& each : kColumns) sql += std::string(", t.") + each.name;
  return sql;
}

void check_ranges(const ChainTask& task) {
  if (task.state > ChainState::kPoison) throw backend::Damaged("column 'state' is not in its range");
  if (task.request.priority > Priority::kLow) throw backend::Damaged("column 'priority' is not in its range");
}

}  // namespace

std::span<const TaskColumn> task_columns() { return kColumns; }

std::string task_columns_sql(bool with_payload) {
  return row_columns() + ", b.request, " + (with_payload ? "b.payload" : "''::text") + ", b.context, b.log";
}

std::string summary_columns_sql() {
  return row_columns() + ", coalesce(t.outline, b.request), ''::text, ''::text, '[]'::text";
}

TaskRow read_task(Row& row, std::int64_t format) {
  TaskRow read;
  read.sequence = row.number();
  read.task.sequence = read.sequence;
  read.is_newer = row.integer() > format;
  if (read.is_newer) return read;
  try {
    for (const TaskColumn& each : kColumns) each.read(row, read.task);
    check_ranges(read.task);
    if (row.is_null()) throw backend::Damaged("it has no body");
    backend::read_request(row.text(), read.task.request);
    read.task.request.payload = row.text();
    read.task.context = row.text();
    read.task.log = backend::read_lines(row.text());
    backend::check_consistency(read.task);
  } catch (const backend::Damaged& broken) {
    read.damage = broken.what();
  }
  return read;
}

}  // namespace cohort::postgres
