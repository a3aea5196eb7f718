#include "backend/sqlite/row_writer.h"

#include <algorithm>

#include "backend/sqlite/schema.h"
#include "cohort/base/log.h"
#include "cohort/base/utf8.h"

namespace cohort::sqlite {

namespace {

std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// A kept row always has a time: it is claimed through the index of those that have one.
std::optional<WallTime> due_column(const ChainTask& task) {
  return task.kept_until ? std::optional(task.due_at.value_or(WallTime())) : task.due_at;
}
std::optional<Duration> due_after_column(const ChainTask& task) {
  return task.kept_until && !task.due_at ? std::optional(Duration::zero()) : task.due_after;
}

const std::string& plugin_column(const ChainTask& task) {
  static const std::string none;
  const ChainStep* const step = task.current_step();
  return step != nullptr ? step->plugin : none;
}

}  // namespace

void RowWriter::insert(const ChainTask& task, const PreparedTask& prepared) {
  StatementLease row = database_.prepare(
      "INSERT INTO tasks (seq, id, grp, state, priority, plugin, due_at, due_after, epoch, writes, claim_id, step, "
      "attempt, failures, attempt_open, alone, crashes, died_alone_with, suspect, ran, created_at, deadline_at, "
      "deadline_after, ended_at, held_before, cancel_requested, message_id, events_made, progress, progress_note, "
      "error, tags, "
      "idempotency_key, request_hash, outline, format) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', 0, 0, 0, 0, 0, '[]', "
      "'', "
      "0, 0, ?, ?, ?, ?, ?, 0, ?, ?, 0, '', '', ?, ?, ?, ?, ?)");
  const std::optional<std::string> key = text_or_null(task.request.idempotency_key);
  row->bind(task.sequence).bind(task.id()).bind(task.request.group).bind(static_cast<int>(task.state));
  row->bind(static_cast<int>(task.request.priority)).bind(plugin_column(task)).bind(due_column(task));
  row->bind(due_after_column(task)).bind(task.created_at).bind(task.deadline_at).bind(task.deadline_after);
  row->bind(task.ended_at).bind(task.held_before).bind(task.message_id).bind(task.events_made);
  row->bind(prepared.tags).bind(key).bind(prepared.hash).bind(prepared.outline);
  row->bind(row_format()).run();
  StatementLease body =
      database_.prepare("INSERT INTO bodies (seq, request, payload, context, log) VALUES (?, ?, ?, ?, '[]')");
  body->bind(task.sequence).bind(prepared.text).bind(task.request.payload).bind(task.context);
  body->run();
  count(task.request.group, task.state, 1);
}

void RowWriter::save(LoadedTask& loaded, bool body) {
  const ChainTask& task = loaded.task;
  StatementLease row = database_.prepare(
      "UPDATE tasks SET state = ?, plugin = ?, due_at = ?, due_after = ?, kept_until = ?, owner = ?, epoch = ?, writes "
      "= ?, claim_id = ?, step = ?, attempt = ?, failures = ?, attempt_open = ?, attempt_began_at = ?, attempt_lines = "
      "?, attempts_made = ?, alone = ?, crashes = ?, died_alone_with = ?, suspect = ?, ran = ?, deadline_at = ?, "
      "deadline_after = ?, started_at = ?, ended_at = ?, held_before = ?, cancel_requested = ?, message_id = ?, "
      "events_made = ?, "
      "progress = ?, progress_note = ?, error = ?, format = ? WHERE seq = ? AND owner IS ? AND epoch = ?");
  const std::string crashes = backend::lines_text(task.crashes);
  const std::optional<std::string> owner = text_or_null(task.owner);
  const std::optional<std::string> owner_before = text_or_null(loaded.owner);
  row->bind(static_cast<int>(task.state)).bind(plugin_column(task)).bind(due_column(task));
  row->bind(due_after_column(task)).bind(task.kept_until).bind(owner).bind(task.epoch).bind(task.writes);
  row->bind(task.claim_id).bind(task.step).bind(task.attempt).bind(task.failures).bind(task.attempt_open);
  row->bind(task.attempt_began_at).bind(task.attempt_lines).bind(task.attempts_made).bind(task.alone);
  row->bind(crashes).bind(task.died_alone_with).bind(task.suspect).bind(task.ran).bind(task.deadline_at);
  row->bind(task.deadline_after).bind(task.started_at).bind(task.ended_at).bind(task.held_before);
  row->bind(task.cancel_requested)
      .bind(task.message_id)
      .bind(task.events_made)
      .bind(task.progress)
      .bind(task.progress_note);
  row->bind(task.error).bind(row_format()).bind(task.sequence).bind(owner_before).bind(loaded.epoch);
  row->run();
  if (database_.changes() == 0) {
    throw Fenced("task '" + task.id() + "' has another owner or epoch in the file; is another process writing it?");
  }
  if (loaded.state != task.state) {
    count(task.request.group, loaded.state, -1);
    count(task.request.group, task.state, 1);
  }
  loaded.note_stored();
  if (!body) return;
  StatementLease rest = database_.prepare("UPDATE bodies SET context = ?, log = ? WHERE seq = ?");
  const std::string log = backend::lines_text(task.log);
  rest->bind(task.context).bind(log).bind(task.sequence);
  rest->run();
}

void RowWriter::remove(std::uint64_t sequence, const std::string& id, ChainState state, const std::string& group) {
  for (const char* sql :
       {"DELETE FROM tasks WHERE seq = ?", "DELETE FROM bodies WHERE seq = ?", "DELETE FROM attempts WHERE seq = ?"}) {
    database_.prepare(sql)->bind(sequence).run();
  }
  remove_letter(id);
  count(group, state, -1);
}

void RowWriter::put_event(const ChainEvent& event) {
  StatementLease row = database_.prepare(
      "INSERT INTO events (ordinal, at, kind, task_id, grp, step, detail) VALUES (?, ?, ?, ?, ?, ?, ?)");
  row->bind(event.ordinal)
      .bind(event.at)
      .bind(to_string(event.kind))
      .bind(event.task_id)
      .bind(event.group)
      .bind(event.step);
  row->bind(event.detail).run();
  news_.add_event(static_cast<std::uint64_t>(database_.last_row()));
}

void RowWriter::put_letter(const DeadLetter& letter) {
  remove_letter(letter.task_id);
  // (One of a newer program stays as it is.)
  StatementLease row = database_.prepare(
      "INSERT OR IGNORE INTO dead_letters (task_id, grp, message_id, state, reason, plugin, step, attempts, "
      "failed_at, node, progress, log, original) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const std::string log = backend::lines_text(letter.log);
  row->bind(letter.task_id).bind(letter.group).bind(letter.message_id).bind(static_cast<int>(letter.state));
  row->bind(letter.reason).bind(letter.plugin).bind(letter.step).bind(letter.attempts).bind(letter.failed_at);
  row->bind(letter.node).bind(letter.progress).bind(log).bind(letter.original);
  row->run();
  letters_ += database_.changes();
  if (internal::log_sink_for(LogLevel::kWarning) == nullptr) return;
  log_after_commit([id = letter.task_id, group = letter.group, state = letter.state, reason = letter.reason,
                    plugin = letter.plugin, step = letter.step, attempts = letter.attempts, node = letter.node] {
    COHORT_LOG(kWarning, "chain", "the task ended as " + std::string(to_string(state)), {"task", id}, {"group", group},
               {"step", step + 1}, {"attempt", attempts}, {"node", node}, {"plugin", plugin},
               {"error", without_secrets(reason)});
  });
}

bool RowWriter::remove_letter(const std::string& id) {
  StatementLease row = database_.prepare("DELETE FROM dead_letters WHERE task_id = ? AND format <= ?");
  row->bind(id).bind(row_format()).run();
  if (database_.changes() == 0) return false;
  --letters_;
  return true;
}

void RowWriter::put_attempts(const ChainTask& task, const std::vector<AttemptRecord>& attempts) {
  for (const AttemptRecord& each : attempts) {
    StatementLease row =
        database_.prepare("INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    const std::string log = backend::lines_text(each.log);
    row->bind(task.sequence).bind(each.number).bind(each.step).bind(each.attempt).bind(each.plugin).bind(each.node);
    row->bind(each.began_at).bind(each.ended_at).bind(each.outcome).bind(each.error).bind(log);
    row->bind(row_format()).run();
    if (each.number <= kMaxAttempts) continue;
    StatementLease old = database_.prepare("DELETE FROM attempts WHERE seq = ? AND number <= ?");
    old->bind(task.sequence).bind(each.number - kMaxAttempts).run();
  }
}

void RowWriter::poison_damaged(std::uint64_t sequence, const std::string& damage, WallTime now) {
  std::string raw;
  std::string id;
  std::string group;
  {
    StatementLease row = database_.prepare("SELECT * FROM tasks t LEFT JOIN bodies b ON b.seq = t.seq WHERE t.seq = ?");
    row->bind(sequence);
    if (!row->step()) return;
    raw = raw_row_text(*row);
  }
  {
    StatementLease row = database_.prepare("SELECT id, grp FROM tasks WHERE seq = ?");
    row->bind(sequence);
    row->step();
    const auto is_good = [&](int column, std::size_t most) {
      const std::string text = row->text(column);
      return row->type(column) == SQLITE_TEXT && is_utf8(text) && !text.empty() && utf8_characters(text) <= most;
    };
    id = is_good(0, NewTask::kMaxIdLength) ? row->text(0) : "@" + std::to_string(sequence);
    group = is_good(1, NewTask::kMaxGroupLength) ? row->text(1) : "(damaged)";
  }
  StatementLease row = database_.prepare(
      "UPDATE tasks SET id = ?, grp = ?, state = 7, priority = 1, plugin = '', due_at = NULL, due_after = NULL, "
      "kept_until = NULL, owner = NULL, epoch = CASE WHEN typeof(epoch) = 'integer' AND epoch BETWEEN 0 AND 1 << 60 "
      "THEN epoch + 1 ELSE 1 END, writes = 0, claim_id = '', step = 0, attempt = 0, failures = 0, attempt_open = 0, "
      "attempt_began_at = NULL, attempt_lines = 0, attempts_made = 0, alone = 0, crashes = '[]', died_alone_with = '', "
      "suspect = 0, ran = 0, outline = NULL, created_at = CASE WHEN typeof(created_at) = 'integer' AND created_at >= 0 "
      "THEN created_at "
      "ELSE ?3 END, deadline_at = ?3, deadline_after = NULL, started_at = NULL, ended_at = ?3, held_before = 0, "
      "cancel_requested = 0, message_id = '', events_made = 0, progress = 0, progress_note = '', error = ?4, tags = "
      "'[]', request_hash "
      "= "
      "'', idempotency_key = NULL, format = ?5 WHERE seq = ?6");
  const std::string reason = "its row cannot be read: " + damage;
  row->bind(id).bind(group).bind(now).bind(reason).bind(row_format()).bind(sequence).run();
  StatementLease body = database_.prepare(
      "INSERT OR REPLACE INTO bodies (seq, request, payload, context, log) VALUES (?, ?, '{}', '{}', '[]')");
  body->bind(sequence).bind(std::string_view(backend::kTextOfDamaged)).run();
  must_recount_ = true;  // Which group and state it was counted under cannot be known: those columns may be damaged.
  put_letter({.task_id = id,
              .group = group,
              .state = ChainState::kPoison,
              .reason = reason,
              .failed_at = now,
              .original = std::move(raw)});
  put_event({.at = now, .kind = EventKind::kPoison, .task_id = id, .group = group, .detail = reason});
  damage_.note("tasks", std::to_string(sequence), damage);
}

// --- counts

void RowWriter::count(const std::string& group, ChainState state, std::int64_t change) {
  totals_[static_cast<std::size_t>(state)] += change;
  if (!is_final(state)) open_[group][static_cast<std::size_t>(state)] += change;
}

void RowWriter::add_to_count(std::string_view group, int state, std::int64_t change) {
  if (change == 0) return;
  StatementLease row =
      database_.prepare("INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = max(0, n + excluded.n)");
  row->bind(group).bind(state).bind(change).run();
}

void RowWriter::flush() {
  if (must_recount_) {
    recount(database_);
  } else {
    for (const auto& [group, states] : open_) {
      for (std::size_t i = 0; i < states.size(); ++i) add_to_count(group, static_cast<int>(i), states[i]);
    }
    for (std::size_t i = 0; i < totals_.size(); ++i) add_to_count("", static_cast<int>(i), totals_[i]);
    add_to_count("", kLetterCount, letters_);
  }
  open_.clear();
  totals_ = {};
  letters_ = 0;
  must_recount_ = false;
}

void RowWriter::log_committed() {
  for (Function<void()>& entry : committed_) entry();
  committed_.clear();
}

void RowWriter::forget() {
  open_.clear();
  totals_ = {};
  letters_ = 0;
  must_recount_ = false;
  committed_.clear();
  news_.clear();
}

}  // namespace cohort::sqlite
