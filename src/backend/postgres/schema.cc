#include "backend/postgres/schema.h"

#include <array>
#include <memory>

#include "backend/postgres/wire.h"

namespace cohort::postgres {

namespace {

// One entry per version; the first makes version 1. Never changed once released: a change is a new entry.
//
// Times are microseconds since 1970, lengths nanoseconds. A ready task that must wait (start time, next attempt, kept
// by its node) has due_at, and is not in the index by which tasks are claimed until its time has come. Texts by which
// rows are looked up are COLLATE "C": their order is that of their bytes, on every server.
//
// tasks_claim: the repetition of a claim whose first transaction is still open cannot get another row.
constexpr std::array kMigrations = {R"sql(
CREATE TABLE tasks (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  grp text COLLATE "C" NOT NULL,
  state smallint NOT NULL CHECK (state BETWEEN 0 AND 7),
  priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
  plugin text NOT NULL,
  due_at bigint,
  due_after bigint,
  kept_until bigint,
  owner text COLLATE "C",
  epoch bigint NOT NULL DEFAULT 0,
  writes bigint NOT NULL DEFAULT 0,
  claim_id text COLLATE "C",
  step bigint NOT NULL DEFAULT 0,
  attempt bigint NOT NULL DEFAULT 0,
  failures bigint NOT NULL DEFAULT 0,
  attempt_open boolean NOT NULL DEFAULT false,
  attempt_began_at bigint,
  attempt_lines bigint NOT NULL DEFAULT 0,
  attempts_made bigint NOT NULL DEFAULT 0,
  alone boolean NOT NULL DEFAULT false,
  crashes text NOT NULL DEFAULT '[]',
  died_alone_with text NOT NULL DEFAULT '',
  suspect boolean NOT NULL DEFAULT false,
  ran bigint NOT NULL DEFAULT 0,
  created_at bigint NOT NULL,
  deadline_at bigint NOT NULL,
  deadline_after bigint,
  started_at bigint,
  ended_at bigint,
  held_before bigint NOT NULL DEFAULT 0,
  cancel_requested boolean NOT NULL DEFAULT false,
  message_id text NOT NULL DEFAULT '',
  events_made bigint NOT NULL DEFAULT 0,
  progress double precision NOT NULL DEFAULT 0,
  progress_note text NOT NULL DEFAULT '',
  error text NOT NULL DEFAULT '',
  tags text NOT NULL DEFAULT '[]',
  idempotency_key text COLLATE "C",
  request_hash text NOT NULL,
  outline text,
  format bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX tasks_ready ON tasks (grp, priority, seq) WHERE state = 1 AND due_at IS NULL;
CREATE INDEX tasks_due ON tasks (grp, due_at) WHERE state = 1 AND due_at IS NOT NULL;
CREATE INDEX tasks_owned ON tasks (owner) WHERE owner IS NOT NULL AND state IN (1, 2);
CREATE UNIQUE INDEX tasks_claim ON tasks (claim_id) WHERE state = 2;
CREATE INDEX tasks_pending ON tasks (deadline_at) WHERE state = 0;
CREATE INDEX tasks_open ON tasks (grp, state) WHERE state IN (0, 1, 2);
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tasks_by_group ON tasks (grp, seq);
CREATE UNIQUE INDEX tasks_key ON tasks (grp, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE TABLE bodies (
  seq bigint PRIMARY KEY,
  request text NOT NULL,
  payload text NOT NULL,
  context text NOT NULL,
  log text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE attempts (
  seq bigint NOT NULL,
  number bigint NOT NULL,
  step bigint NOT NULL,
  attempt bigint NOT NULL,
  plugin text NOT NULL,
  node text NOT NULL,
  began_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  outcome text NOT NULL,
  error text NOT NULL,
  log text NOT NULL,
  format bigint NOT NULL,
  PRIMARY KEY (seq, number)
);
CREATE TABLE dead_letters (
  task_id text COLLATE "C" PRIMARY KEY,
  grp text NOT NULL,
  message_id text NOT NULL,
  state bigint NOT NULL,
  reason text NOT NULL,
  plugin text NOT NULL,
  step bigint NOT NULL,
  attempts bigint NOT NULL,
  failed_at bigint NOT NULL,
  node text NOT NULL,
  progress double precision NOT NULL,
  log text NOT NULL,
  original text NOT NULL,
  format bigint NOT NULL
);
CREATE INDEX dead_letters_failed ON dead_letters (failed_at);
CREATE TABLE refused_messages (message_id text COLLATE "C" PRIMARY KEY, at bigint NOT NULL);
CREATE INDEX refused_messages_at ON refused_messages (at);
CREATE TABLE events (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  number bigint,
  ordinal bigint NOT NULL,
  at bigint NOT NULL,
  kind text NOT NULL,
  task_id text NOT NULL,
  grp text NOT NULL,
  step bigint NOT NULL,
  detail text NOT NULL,
  format bigint NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX events_number ON events (number) WHERE number IS NOT NULL;
CREATE INDEX events_new ON events (id) WHERE number IS NULL;
CREATE TABLE groups (
  grp text COLLATE "C" PRIMARY KEY,
  paused_since bigint,
  paused_total bigint NOT NULL,
  limits text NOT NULL,
  version bigint NOT NULL,
  format bigint NOT NULL
);
CREATE TABLE boots (
  boot text COLLATE "C" PRIMARY KEY,
  node text NOT NULL,
  address text NOT NULL,
  lease bigint NOT NULL,
  renewals bigint NOT NULL DEFAULT 0,
  joined_at bigint NOT NULL,
  dead boolean NOT NULL DEFAULT false,
  died_at bigint,
  came_back boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);
CREATE TABLE numbers (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE leaders (
  name text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL,
  term bigint NOT NULL,
  renewals bigint NOT NULL,
  last_number bigint NOT NULL
);
INSERT INTO leaders VALUES ('events', '', 0, 0, 0);
CREATE TABLE submitted (seq bigint PRIMARY KEY, grp text NOT NULL, at bigint NOT NULL);
CREATE INDEX submitted_at ON submitted (at);

-- Submits a task within the caller's own transaction: the task runs if that commits. Gives the id of the task; for a key
-- that belongs to an earlier submit of the group, the id of that task.
CREATE FUNCTION submit(
  grp text, steps jsonb, payload jsonb DEFAULT '{}', id text DEFAULT NULL, file text DEFAULT '', session text DEFAULT '',
  priority text DEFAULT 'normal', tags text[] DEFAULT '{}', deadline interval DEFAULT NULL,
  start_at timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $body$
DECLARE
  now_us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    + coalesce(nullif(current_setting('cohort.clock_offset', true), ''), '0')::bigint;
  task_id text := coalesce(nullif(submit.id, ''), replace(gen_random_uuid()::text, '-', ''));
  rank smallint := CASE submit.priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 WHEN 'low' THEN 2 END;
  length_ns bigint := (extract(epoch FROM coalesce(submit.deadline, interval '1 hour')) * 1000000)::bigint * 1000;
  start_us bigint := (extract(epoch FROM submit.start_at) * 1000000)::bigint;
  request jsonb;
  step jsonb;
  list jsonb := '[]';
  held bigint;
  is_empty boolean;
  made bigint;
  known text;
BEGIN
  IF submit.grp IS NULL OR submit.grp = '' OR char_length(submit.grp) > 1024 THEN
    RAISE 'the group of a task has 1 to 1024 characters' USING ERRCODE = '22023';
  END IF;
  IF char_length(task_id) > 128 OR task_id ~ '^@[0-9]+$' THEN
    RAISE 'the id of a task has at most 128 characters, and is not @ and a number' USING ERRCODE = '22023';
  END IF;
  IF rank IS NULL THEN RAISE 'the priority is high, normal or low' USING ERRCODE = '22023'; END IF;
  IF jsonb_typeof(submit.steps) IS DISTINCT FROM 'array' OR jsonb_array_length(submit.steps) NOT BETWEEN 1 AND 100 THEN
    RAISE 'steps is a JSON list of 1 to 100 steps' USING ERRCODE = '22023';
  END IF;
  IF coalesce(array_length(submit.tags, 1), 0) > 32 OR EXISTS (
      SELECT FROM unnest(submit.tags) AS t WHERE t IS NULL OR char_length(t) NOT BETWEEN 1 AND 128) THEN
    RAISE 'a task has at most 32 tags of 1 to 128 characters' USING ERRCODE = '22023';
  END IF;
  IF char_length(coalesce(submit.file, '')) > 4096 OR char_length(coalesce(submit.session, '')) > 256
      OR char_length(coalesce(submit.idempotency_key, '')) > 256 THEN
    RAISE 'file, session or idempotency_key is too long' USING ERRCODE = '22023';
  END IF;
  IF length_ns NOT BETWEEN 1 AND 3000000000000000000 THEN
    RAISE 'the deadline is above 0, and at most 95 years' USING ERRCODE = '22023';
  END IF;
  IF octet_length(submit.payload::text) + octet_length(submit.steps::text) > 1048576 THEN
    RAISE 'payload and steps have at most 1 MiB' USING ERRCODE = '22023';
  END IF;
  FOR step IN SELECT * FROM jsonb_array_elements(submit.steps) LOOP
    IF jsonb_typeof(step) = 'string' THEN step := jsonb_build_object('plugin', step); END IF;
    IF coalesce(step ->> 'plugin', '') = '' OR jsonb_typeof(coalesce(step -> 'parameters', '{}')) <> 'object' THEN
      RAISE 'a step is {"plugin": "…", "parameters": {…}}, or the name of a plugin' USING ERRCODE = '22023';
    END IF;
    list := list || jsonb_build_array(jsonb_build_object('plugin', step ->> 'plugin', 'parameters',
      coalesce(step -> 'parameters', '{}')::text));
  END LOOP;
  IF submit.idempotency_key <> '' THEN
    SELECT t.id INTO known FROM tasks t WHERE t.grp = submit.grp AND t.idempotency_key = submit.idempotency_key;
    IF FOUND THEN RETURN known; END IF;
  END IF;
  request := jsonb_build_object('format', 3, 'steps', list);
  IF submit.deadline IS NOT NULL THEN request := request || jsonb_build_object('deadline_ns', length_ns); END IF;
  IF submit.file <> '' THEN request := request || jsonb_build_object('file', submit.file); END IF;
  IF submit.session <> '' THEN request := request || jsonb_build_object('session', submit.session); END IF;
  IF start_us IS NOT NULL THEN request := request || jsonb_build_object('start_at_us', start_us); END IF;
  SELECT coalesce((SELECT value FROM numbers WHERE name = 'held'), 0)
    + coalesce((SELECT g.paused_total + CASE WHEN g.paused_since IS NULL THEN 0 ELSE greatest(0, now_us - g.paused_since)
      * 1000 END FROM groups g WHERE g.grp = submit.grp), 0) INTO held;
  INSERT INTO tasks (id, grp, state, priority, plugin, due_at, created_at, deadline_at, deadline_after, held_before, tags,
    idempotency_key, request_hash, format)
  VALUES (task_id, submit.grp, 1, rank, list -> 0 ->> 'plugin', CASE WHEN start_us > now_us THEN start_us END, now_us,
    CASE WHEN start_us > now_us THEN start_us ELSE now_us END + length_ns / 1000, length_ns, held,
    to_jsonb(submit.tags)::text, nullif(submit.idempotency_key, ''), '', 1)
  RETURNING seq INTO made;
  INSERT INTO bodies VALUES (made, request::text, submit.payload::text, '{}', '[]');
  INSERT INTO submitted VALUES (made, submit.grp, now_us);
  RETURN task_id;
END
$body$;
)sql"};

Error failed(PGconn* connection, const char* what) {
  return {ErrorCode::kUnavailable, std::string("the PostgreSQL store: ") + what + ": " + PQerrorMessage(connection)};
}

bool run(PGconn* connection, const std::string& sql) {
  const ResultRef result(PQexec(connection, sql.c_str()), &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/// A number that a query gives; nothing: no row, or it failed.
std::optional<std::int64_t> number(PGconn* connection, const std::string& sql, int column = 0) {
  const ResultRef result(PQexec(connection, sql.c_str()), &PQclear);
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK || rows_of(result) == 0) return std::nullopt;
  return std::stoll(PQgetvalue(result.get(), 0, column));
}

std::string literal(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

Error unusable(const std::string& schema, const std::string& why) {
  return {ErrorCode::kInvalid, "the tables in schema '" + schema + "' of the PostgreSQL store " + why};
}

}  // namespace

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// `versions` has one row: the version of the tables, and the oldest program that may still use them.
Result<void> prepare_schema(PGconn* connection, const std::string& schema, bool may_migrate, std::int64_t version) {
  const std::string name = quoted(schema);
  const std::string exists =
      "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = " + literal(schema) + " AND tablename = 'versions'";
  const std::string read = "SELECT version, oldest_program FROM " + name + ".versions";
  const auto is_there = number(connection, exists);
  if (!is_there) return failed(connection, "its tables cannot be looked for");
  if (*is_there == 0 && !may_migrate) {
    return unusable(schema, "are missing; make them with a node whose store.postgres.migrate is true, as the owner");
  }
  if (may_migrate) {
    // Nodes that start together make them one after the other.
    if (!run(connection, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('cohort migration'))")) {
      return failed(connection, "its tables cannot be locked");
    }
    bool good = run(connection, "CREATE SCHEMA IF NOT EXISTS " + name + "; SET LOCAL search_path = " + name +
                                    ", pg_temp; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0") &&
                run(connection,
                    "CREATE TABLE IF NOT EXISTS versions (version bigint NOT NULL, oldest_program bigint NOT NULL)");
    const std::int64_t there = number(connection, read).value_or(0);
    for (std::int64_t next = there; good && next < schema_version(); ++next) {
      good = run(connection, kMigrations.at(static_cast<std::size_t>(next)));
    }
    if (good && there < version) {
      good = run(connection, "DELETE FROM versions; INSERT INTO versions VALUES (" + std::to_string(version) + ", 1)");
    }
    if (!good) {
      Error error = failed(connection, "its tables cannot be made or brought to this version");
      run(connection, "ROLLBACK");
      error.code = ErrorCode::kInvalid;
      return error;
    }
    if (!run(connection, "COMMIT")) return failed(connection, "its tables cannot be made");
  }
  const auto there = number(connection, read);
  const auto oldest = number(connection, read, 1);
  if (!there || !oldest) return failed(connection, "the version of its tables cannot be read");
  if (*oldest > version) {
    return unusable(schema, "are of version " + std::to_string(*there) + " and need a program that knows version " +
                                std::to_string(*oldest) + " or later; this one knows " + std::to_string(version) +
                                ". Use a newer version of Cohort");
  }
  if (*there < version) {
    return unusable(schema, "are of version " + std::to_string(*there) + "; this program needs version " +
                                std::to_string(version) +
                                ". Start a node with store.postgres.migrate: true once, as their owner");
  }
  return {};
}

}  // namespace cohort::postgres
