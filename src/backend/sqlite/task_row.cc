#include "backend/sqlite/task_row.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "backend/sqlite/schema.h"
#include "cohort/base/log.h"
#include "cohort/base/utf8.h"

namespace cohort::sqlite {

#define COHORT_ROW_COLUMNS                                                                                       \
  "t.seq, t.format, t.id, t.grp, t.state, t.priority, t.due_at, t.due_after, t.kept_until, t.owner, t.epoch, "   \
  "t.writes, t.claim_id, t.step, t.attempt, t.failures, t.attempt_open, t.attempt_began_at, t.attempt_lines, "   \
  "t.attempts_made, t.alone, t.crashes, t.died_alone_with, t.suspect, t.ran, t.created_at, t.deadline_at, "      \
  "t.deadline_after, t.started_at, t.ended_at, t.held_before, t.cancel_requested, t.message_id, t.events_made, " \
  "t.progress, "                                                                                                 \
  "t.progress_note, t.error, t.tags, t.idempotency_key"

const char* const kTaskColumns = COHORT_ROW_COLUMNS ", b.request, b.payload, b.context, b.log";
const char* const kSummaryColumns = COHORT_ROW_COLUMNS
    ", CASE WHEN typeof(t.outline) = 'text' AND json_valid(t.outline) THEN t.outline ELSE b.request END, '', '', '[]'";
const char* const kTaskTables = " FROM tasks t LEFT JOIN bodies b ON b.seq = t.seq ";
const char* const kLetterColumns =
    "task_id, grp, message_id, state, reason, plugin, step, attempts, failed_at, node, progress, log, original, "
    "format";
const char* const kEventColumns = "seq, ordinal, at, kind, task_id, grp, step, detail, format";
const char* const kAttemptColumns =
    "number, step, attempt, plugin, node, began_at, ended_at, outcome, error, log, format";

#undef COHORT_ROW_COLUMNS

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Its number alone decides, so it is looked at before anything else of the row.
void check_format(const Statement& row) {
  const int column = row.columns() - 1;
  if (row.type(column) != SQLITE_INTEGER) throw Damaged("column 'format' is not a number");
  if (row.integer(column) > row_format()) throw Newer();
  if (row.integer(column) < 1) throw Damaged("column 'format' is not in its range");
}

void read_task(ColumnReader& columns, std::int64_t format, ChainTask& task) {
  task.request.id = columns.text();
  task.request.group = columns.text();
  task.state = columns.state();
  task.request.priority = static_cast<Priority>(columns.integer(0, 2));
  task.due_at = columns.time_or_null();
  task.due_after = columns.duration_or_null();
  task.kept_until = columns.time_or_null();
  task.owner = columns.text_or_null();
  task.epoch = columns.number();
  task.writes = columns.number();
  task.claim_id = columns.text();
  task.step = columns.count();
  task.attempt = columns.count();
  task.failures = columns.count();
  task.attempt_open = columns.flag();
  task.attempt_began_at = columns.time_or_null();
  task.attempt_lines = columns.count();
  task.attempts_made = columns.count();
  task.alone = columns.flag();
  task.crashes = columns.lines();
  task.died_alone_with = columns.text();
  task.suspect = columns.flag();
  task.ran = columns.duration();
  task.created_at = columns.time();
  task.deadline_at = columns.time();
  task.deadline_after = columns.duration_or_null();
  task.started_at = columns.time_or_null();
  task.ended_at = columns.time_or_null();
  task.held_before = columns.duration();
  task.cancel_requested = columns.flag();
  task.message_id = columns.text();
  task.events_made = columns.number();
  task.progress = columns.real();
  task.progress_note = columns.text();
  task.error = columns.text();
  task.request.tags = columns.lines();
  task.request.idempotency_key = columns.text_or_null();
  backend::read_request(columns.text(), task.request);
  if (format == 1 && !is_final(task.state) && !task.request.deadline_at) {
    task.deadline_after = task.request.deadline.value_or(NewTask::kDefaultDeadline);
  }
  task.request.payload = columns.text();
  task.context = columns.text();
  task.log = columns.lines();
  backend::check_consistency(task);
}

}  // namespace

void ColumnReader::damaged(const char* expected) const {
  throw Damaged(std::string("column '") + row_.name(at_) + "' is not " + expected);
}

std::int64_t ColumnReader::integer(std::int64_t min, std::int64_t max) {
  if (row_.type(at_) != SQLITE_INTEGER) damaged("a number");
  const std::int64_t value = row_.integer(at_);
  if (value < min || value > max) damaged("in its range");
  ++at_;
  return value;
}

std::uint64_t ColumnReader::number() { return static_cast<std::uint64_t>(integer(0, kMost)); }
std::uint32_t ColumnReader::count() { return static_cast<std::uint32_t>(integer(0, 1'000'000'000)); }
ChainState ColumnReader::state() {
  return static_cast<ChainState>(integer(0, static_cast<std::int64_t>(kChainStates) - 1));
}

double ColumnReader::real() {
  if (row_.type(at_) != SQLITE_FLOAT && row_.type(at_) != SQLITE_INTEGER) damaged("a number");
  const double value = row_.real(at_);
  if (!std::isfinite(value)) damaged("finite");
  ++at_;
  return value;
}

std::string ColumnReader::text() {
  if (row_.type(at_) != SQLITE_TEXT) damaged("a text");
  return row_.text(at_++);
}

std::string ColumnReader::text_or_null() {
  if (is_null()) {
    ++at_;
    return {};
  }
  std::string given = text();
  if (given.empty()) throw Damaged("a text is empty where this program writes NULL");  // (Updates compare it.)
  return given;
}

std::vector<std::string> ColumnReader::lines() {
  const std::string given = text();
  try {
    return backend::read_lines(given);
  } catch (const Damaged&) {
    --at_;
    damaged("a list of texts");
  }
}

std::optional<WallTime> ColumnReader::time_or_null() {
  if (!is_null()) return time();
  ++at_;
  return std::nullopt;
}

std::optional<Duration> ColumnReader::duration_or_null() {
  if (!is_null()) return duration();
  ++at_;
  return std::nullopt;
}

TaskRow read_task_row(const Statement& row) {
  TaskRow read;
  read.sequence = static_cast<std::uint64_t>(row.integer(0));
  read.task.sequence = read.sequence;
  ColumnReader columns(row);
  try {
    static_cast<void>(columns.number());
    const std::int64_t format = columns.integer(1, kMost);
    read.is_newer = format > row_format();
    if (!read.is_newer) read_task(columns, format, read.task);
  } catch (const Damaged& broken) {
    read.damage = broken.what();
  }
  return read;
}

Error newer_format(std::uint64_t sequence) {
  return {ErrorCode::kConflict,
          "task @" + std::to_string(sequence) + " was written by a newer version of Cohort; this one leaves it alone"};
}

DeadLetter read_letter(const Statement& row) {
  check_format(row);
  ColumnReader columns(row);
  DeadLetter letter;
  letter.task_id = columns.text();
  letter.group = columns.text();
  letter.message_id = columns.text();
  letter.state = columns.state();
  letter.reason = columns.text();
  letter.plugin = columns.text();
  letter.step = columns.count();
  letter.attempts = columns.count();
  letter.failed_at = columns.time();
  letter.node = columns.text();
  letter.progress = columns.real();
  letter.log = columns.lines();
  letter.original = columns.text();
  return letter;
}

ChainEvent read_event(const Statement& row) {
  check_format(row);
  ColumnReader columns(row);
  ChainEvent event;
  event.sequence = columns.number();
  event.ordinal = columns.number();
  event.at = columns.time();
  const std::optional<EventKind> kind = event_kind_of(columns.text());
  if (!kind) throw Damaged("column 'kind' is no kind of event");
  event.kind = *kind;
  event.task_id = columns.text();
  event.group = columns.text();
  event.step = columns.count();
  event.detail = columns.text();
  return event;
}

AttemptRecord read_attempt(const Statement& row) {
  check_format(row);
  ColumnReader columns(row);
  AttemptRecord attempt;
  attempt.number = columns.count();
  attempt.step = columns.count();
  attempt.attempt = columns.count();
  attempt.plugin = columns.text();
  attempt.node = columns.text();
  attempt.began_at = columns.time();
  attempt.ended_at = columns.time();
  attempt.outcome = columns.text();
  attempt.error = columns.text();
  attempt.log = columns.lines();
  return attempt;
}

std::string raw_row_text(const Statement& row) {
  static constexpr char kDigits[] = "0123456789abcdef";
  nlohmann::json raw = nlohmann::json::object();
  for (int i = 0; i < row.columns(); ++i) {
    nlohmann::json& value = raw[row.name(i)];
    switch (row.type(i)) {
      case SQLITE_NULL: break;
      case SQLITE_INTEGER: value = row.integer(i); break;
      case SQLITE_FLOAT: value = row.real(i); break;
      default: {
        const std::string bytes = row.text(i);
        if (row.type(i) == SQLITE_TEXT && is_utf8(bytes)) {
          value = bytes;
          break;
        }
        std::string hex;
        for (const char c : bytes) {
          const auto byte = static_cast<unsigned char>(c);
          (hex += kDigits[byte >> 4U]) += kDigits[byte & 15U];
        }
        value = {{"hex", std::move(hex)}};
      }
    }
  }
  return raw.dump();
}

void DamageLog::note(const std::string& table, const std::string& row, const std::string& damage) {
  {
    MutexLock lock(mutex_);
    if (seen_.size() >= kRemembered || !seen_.insert(std::hash<std::string>()(table + "/" + row)).second) return;
    ++count_;
  }
  COHORT_LOG(kError, "store", "a row cannot be read and is skipped", {"table", table}, {"row", row}, {"error", damage});
}

std::uint64_t DamageLog::count() const {
  MutexLock lock(mutex_);
  return count_;
}

}  // namespace cohort::sqlite
