#include "backend/sqlite/schema.h"

#include <array>

namespace cohort::sqlite {

namespace {

constexpr int kApplicationId = 0x436f6874;  // "Coht"

// One entry per version; the first makes version 1. Never changed once released: a change is a new entry. No entry
// reads JSON: texts are understood by the program that reads the row (a database of version 1 has no deadline_after,
// which read_task() takes from the request).
//
// Version 2: `format` says which program can read the row (row_format()). Delays and deadlines keep their lengths.
// `outline` is the request without its parameters, which lists read in place of a large one; NULL where the request is
// small, and in rows of version 1.
// Version 3: texts of requests have a number of their own (task_text.cc), and say `steps` where they said `callbacks`.
// Version 4: `groups` has the limits that operators set while nodes ran, where a log of commands had them before.
// Events carry how many events their task has had. `counts` holds, for each group, how many tasks it has in the open
// states 0 to 2; under the empty name, how many tasks there are in each state, and the number of dead letters as state
// 100.
//
// Times are microseconds since 1970, durations nanoseconds. A ready task that must wait (start time, next attempt, kept
// by its node) has due_at, and is not in the index by which tasks are claimed until its time has come.
constexpr std::array kMigrations = {R"sql(
CREATE TABLE tasks (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  grp TEXT NOT NULL,
  state INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  plugin TEXT NOT NULL,
  due_at INTEGER,
  kept_until INTEGER,
  owner TEXT,
  epoch INTEGER NOT NULL,
  writes INTEGER NOT NULL,
  claim_id TEXT NOT NULL,
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  attempt_open INTEGER NOT NULL,
  alone INTEGER NOT NULL,
  crashes TEXT NOT NULL,
  died_alone_with TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  ran INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  deadline_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  held_before INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  progress REAL NOT NULL,
  progress_note TEXT NOT NULL,
  error TEXT NOT NULL,
  tags TEXT NOT NULL,
  idempotency_key TEXT,
  request_hash TEXT NOT NULL
);
CREATE INDEX tasks_ready ON tasks (grp, priority, seq) WHERE state = 1 AND due_at IS NULL;
CREATE INDEX tasks_due ON tasks (grp, due_at) WHERE state = 1 AND due_at IS NOT NULL;
CREATE INDEX tasks_owned ON tasks (owner) WHERE owner IS NOT NULL AND state IN (1, 2);
CREATE INDEX tasks_pending ON tasks (deadline_at) WHERE state = 0;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_key ON tasks (grp, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE bodies (
  seq INTEGER PRIMARY KEY,
  request TEXT NOT NULL,
  payload TEXT NOT NULL,
  context TEXT NOT NULL,
  log TEXT NOT NULL
);
CREATE TABLE dead_letters (
  task_id TEXT PRIMARY KEY,
  grp TEXT NOT NULL,
  message_id TEXT NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL,
  callback TEXT NOT NULL,
  step INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  failed_at INTEGER NOT NULL,
  node TEXT NOT NULL,
  progress REAL NOT NULL,
  log TEXT NOT NULL,
  original TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE refused_messages (message_id TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  task_id TEXT NOT NULL,
  grp TEXT NOT NULL,
  step INTEGER NOT NULL,
  detail TEXT NOT NULL
);
CREATE TABLE commands (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  target TEXT NOT NULL,
  arguments TEXT NOT NULL,
  actor TEXT NOT NULL
);
CREATE TABLE groups (grp TEXT PRIMARY KEY, paused_since INTEGER, paused_total INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE boots (
  boot TEXT PRIMARY KEY,
  node TEXT NOT NULL,
  address TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  came_back INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
)sql",
                                    R"sql(
ALTER TABLE tasks ADD COLUMN due_after INTEGER;
ALTER TABLE tasks ADD COLUMN deadline_after INTEGER;
ALTER TABLE tasks ADD COLUMN attempt_began_at INTEGER;
ALTER TABLE tasks ADD COLUMN attempt_lines INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN attempts_made INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN outline TEXT;
ALTER TABLE tasks ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
ALTER TABLE dead_letters ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
ALTER TABLE events ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
ALTER TABLE commands ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
ALTER TABLE groups ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
UPDATE tasks SET due_after = max(0, due_at - CAST(strftime('%s', 'now') AS INTEGER) * 1000000) * 1000
  WHERE state = 1 AND typeof(due_at) = 'integer' AND started_at IS NOT NULL;
DROP INDEX tasks_ready;
CREATE INDEX tasks_ready ON tasks (grp, priority, seq, format) WHERE state = 1 AND due_at IS NULL;
DROP INDEX tasks_due;
CREATE INDEX tasks_due ON tasks (grp, (due_after IS NOT NULL), due_at, format) WHERE state = 1 AND due_at IS NOT NULL;
CREATE INDEX tasks_by_group ON tasks (grp, seq);
CREATE INDEX dead_letters_failed ON dead_letters (failed_at);
CREATE INDEX commands_at ON commands (at);
CREATE INDEX refused_messages_at ON refused_messages (at);
CREATE TABLE attempts (
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  plugin TEXT NOT NULL,
  node TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  error TEXT NOT NULL,
  log TEXT NOT NULL,
  format INTEGER NOT NULL,
  PRIMARY KEY (seq, number)
) WITHOUT ROWID;
CREATE TABLE counts (grp TEXT NOT NULL, state INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (grp, state)) WITHOUT ROWID;
)sql",
                                    R"sql(
ALTER TABLE dead_letters RENAME COLUMN callback TO plugin;
)sql",
                                    R"sql(
ALTER TABLE groups ADD COLUMN limits TEXT NOT NULL DEFAULT '';
ALTER TABLE groups ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
INSERT OR IGNORE INTO groups (grp, paused_total, format)
  SELECT DISTINCT target, 0, 4 FROM commands WHERE kind = 'resize_group' AND typeof(target) = 'text';
UPDATE groups SET limits = coalesce((SELECT c.arguments FROM commands c WHERE c.kind = 'resize_group' AND c.target = grp
  AND typeof(c.arguments) = 'text' AND c.format <= 4 ORDER BY c.seq DESC LIMIT 1), '');
DROP TABLE commands;
ALTER TABLE tasks ADD COLUMN events_made INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
)sql"};

}  // namespace

int schema_version() { return static_cast<int>(kMigrations.size()); }

Result<void> check_owner(Database& database, const std::string& file) {
  const auto version = static_cast<int>(database.value("PRAGMA user_version"));
  const auto application = static_cast<int>(database.value("PRAGMA application_id"));
  const bool is_empty = database.value("SELECT count(*) FROM sqlite_schema") == 0;
  if (!is_empty && application != kApplicationId) {
    return Error{ErrorCode::kInvalid, "'" + file + "' is a database of another program"};
  }
  if (version > schema_version()) {
    return Error{ErrorCode::kInvalid, "'" + file + "' was made by a newer version of Cohort (schema " +
                                          std::to_string(version) + ", this one knows " +
                                          std::to_string(schema_version()) + "); use that one"};
  }
  return {};
}

void recount(Database& database) {
  database.execute(
      "DELETE FROM counts;"
      "INSERT INTO counts SELECT grp, state, count(*) FROM tasks WHERE state IN (0, 1, 2) AND grp <> '' GROUP BY "
      "grp, state;"
      "INSERT INTO counts SELECT '', state, count(*) FROM tasks WHERE state BETWEEN 0 AND 7 GROUP BY state;"
      "INSERT INTO counts SELECT '', 100, count(*) FROM dead_letters");
}

void migrate(Database& database) {
  const auto version = static_cast<int>(database.value("PRAGMA user_version"));
  for (int next = version; next < schema_version(); ++next) {
    database.execute("BEGIN IMMEDIATE");
    database.execute(kMigrations[static_cast<std::size_t>(next)]);
    if (next == 1) recount(database);
    database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.execute("PRAGMA user_version = " + std::to_string(next + 1));
    database.execute("COMMIT");
  }
}

}  // namespace cohort::sqlite
