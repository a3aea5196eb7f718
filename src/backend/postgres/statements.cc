#include "backend/postgres/statements.h"

#include <string>

#include "backend/postgres/task_columns.h"

namespace cohort::postgres {

namespace {

constexpr const char* kNowSql = "((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ";

const char* array_cast(Type type) {
  switch (type) {
    case Type::kBool: return "::boolean[]";
    case Type::kInteger: return "::bigint[]";
    case Type::kReal: return "::double precision[]";
    case Type::kText: break;
  }
  return "::text[]";
}

// Tasks and their bodies out of one list of arrays. Numbers are drawn in the order of the arrays. A row that is there
// already makes the whole transaction fail, and its repetition finds it.
const char* insert_tasks() {
  std::string names;
  std::string values;
  std::string arrays;
  std::string aliases;
  int number = 0;
  const auto add = [&](const std::string& name, const char* cast, const std::string& array, bool is_of_task) {
    if (is_of_task) {
      names += ", " + name;
      values += ", u." + name + cast;
    }
    arrays += (arrays.empty() ? "$" : ", $") + std::to_string(++number) + array;
    aliases += (aliases.empty() ? "" : ", ") + name;
  };
  for (const TaskColumn& each : task_columns()) add(each.name, each.cast, array_cast(each.type), true);
  for (const char* each : {"request_hash", "outline"}) add(each, "", "::text[]", true);
  for (const char* each : {"request", "payload", "context", "log"}) add(each, "", "::text[]", false);
  return kept_sql(
      "WITH u AS MATERIALIZED (SELECT nextval('tasks_seq_seq') AS seq, o.* FROM (SELECT * FROM unnest(" + arrays +
      ") WITH ORDINALITY AS a(" + aliases + ", place) ORDER BY place) AS o), made AS (INSERT INTO tasks (seq" + names +
      ", format) OVERRIDING SYSTEM VALUE SELECT u.seq" + values + ", $" + std::to_string(number + 1) +
      "::bigint FROM u) INSERT INTO bodies (seq, request, payload, context, log) SELECT seq, request, payload, "
      "context, log FROM u");
}

const char* update_tasks() {
  std::string sets;
  std::string arrays = "$1::bigint[], $2::bigint[], $3::text[]";
  std::string aliases = "seq, epoch_before, owner_before";
  int number = 3;
  for (const TaskColumn& each : task_columns()) {
    if (!each.changes) continue;
    sets += std::string(each.name) + " = u." + each.name + each.cast + ", ";
    arrays += ", $" + std::to_string(++number) + array_cast(each.type);
    aliases += std::string(", ") + each.name;
  }
  return kept_sql("UPDATE tasks AS t SET " + sets + "format = $" + std::to_string(number + 1) +
                  "::bigint FROM unnest(" + arrays + ") AS u(" + aliases +
                  ") WHERE t.seq = u.seq AND t.epoch = u.epoch_before AND t.owner IS NOT DISTINCT FROM u.owner_before");
}

std::string tasks_where(const std::string& condition, bool with_payload = false) {
  return "SELECT " + task_columns_sql(with_payload) + " FROM tasks t LEFT JOIN bodies b ON b.seq = t.seq WHERE " +
         condition;
}

// The best ready tasks of each group. The groups, the plugins to leave out and how many come as arrays.
const char* candidates() {
  return kept_sql(
      "SELECT " + task_columns_sql(true) +
      ", g.without FROM unnest($1::text[], $2::text[], $3::bigint[]) AS g(grp, without, n) CROSS JOIN LATERAL "
      "(SELECT * FROM tasks WHERE grp = g.grp AND state = 1 AND due_at IS NULL AND format <= $4::bigint AND "
      "(g.without = '[]' OR NOT g.without::jsonb ? plugin) ORDER BY priority, seq LIMIT g.n FOR UPDATE SKIP "
      "LOCKED) AS t LEFT JOIN bodies b ON b.seq = t.seq ORDER BY t.priority, t.seq");
}

const char* due() {
  return kept_sql(
      "SELECT " + task_columns_sql(true) +
      ", g.without, g.boot FROM unnest($1::text[], $2::text[], $3::text[]) AS g(grp, without, boot) CROSS JOIN "
      "LATERAL (SELECT * FROM tasks WHERE grp = g.grp AND state = 1 AND due_at IS NOT NULL AND due_at <= " +
      kNowSql + "$5::bigint) AND format <= $4::bigint AND (kept_until IS NULL OR kept_until <= " + kNowSql +
      "$5::bigint) OR owner = g.boot) AND (g.without = '[]' OR NOT g.without::jsonb ? plugin) ORDER BY due_at "
      "LIMIT 100 FOR UPDATE SKIP LOCKED) AS t LEFT JOIN bodies b ON b.seq = t.seq ORDER BY t.priority, t.seq");
}

constexpr const char* kBootColumns = "SELECT boot, renewals, lease, dead, came_back FROM boots WHERE ";

}  // namespace

const Statement kBegin = {"begin", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
const Statement kCommit = {"commit", "COMMIT"};
const Statement kCommitLater = {"relax", "SET LOCAL synchronous_commit = off"};
const Statement kRollback = {"rollback", "ROLLBACK"};
const Statement kNotify = {"notify", "SELECT pg_notify($1::text, $2::text)"};
const Statement kNotifyNumbers = {"notify_numbers", "SELECT pg_notify($1::text, $2::text)"};

const Statement kNow = {"now", kept_sql(std::string("SELECT ") + kNowSql + "$1::bigint)")};
const Statement kHeld = {"held", "SELECT value FROM numbers WHERE name = 'held'"};
const Statement kBoots = {"boots", kept_sql(std::string(kBootColumns) + "boot = ANY($1::text[])")};
// Locked only if there is something to claim: an empty claim must not write.
const Statement kBootsOfClaims = {
    "boots_of_claims",
    kept_sql(
        std::string(kBootColumns) +
        "boot = ANY($1::text[]) AND NOT dead AND EXISTS (SELECT 1 FROM unnest($2::text[]) AS g(grp) WHERE EXISTS "
        "(SELECT 1 FROM tasks t WHERE t.grp = g.grp AND t.state = 1 AND t.due_at IS NULL AND t.format <= $3::bigint) "
        "OR EXISTS (SELECT 1 FROM tasks t WHERE t.grp = g.grp AND t.state = 1 AND t.due_at IS NOT NULL AND t.due_at "
        "<= " +
        kNowSql + "$4::bigint) AND t.format <= $3::bigint)) ORDER BY boot FOR KEY SHARE")};
const Statement kBootsForUpdate = {
    "boots_for_update", kept_sql(std::string(kBootColumns) + "boot = ANY($1::text[]) ORDER BY boot FOR UPDATE")};
const Statement kGroups = {
    "groups",
    "SELECT grp, paused_since, paused_total, limits, version, format FROM groups WHERE grp = ANY($1::text[])"};
const Statement kGroupsForUpdate = {"groups_for_update",
                                    "SELECT grp, paused_since, paused_total, limits, version, format FROM groups WHERE "
                                    "grp = ANY($1::text[]) ORDER BY grp FOR UPDATE"};
const Statement kGroupsOfTasks = {
    "groups_of_tasks",
    "SELECT grp, paused_since, paused_total, limits, version, format FROM groups WHERE grp IN (SELECT grp FROM tasks "
    "WHERE id = ANY($1::text[]))"};
// A statement that has waited for a lock sees the locked row as it is now, but other tables as they were when it began.
// So rows are locked by a statement of their own, before the one that reads them with their bodies.
const Statement kLockTasks = {"lock_tasks", "SELECT 1 FROM tasks WHERE id = ANY($1::text[]) ORDER BY seq FOR UPDATE"};
const Statement kLockTasksOfBoots = {
    "lock_tasks_of_boots",
    "SELECT 1 FROM tasks WHERE owner = ANY($1::text[]) AND state IN (1, 2) AND format <= $2::bigint ORDER BY seq LIMIT "
    "200 FOR UPDATE"};
const Statement kBodies = {"bodies", "SELECT seq, context, log FROM bodies WHERE seq = ANY($1::bigint[])"};
// So that there is a row to lock.
const Statement kMakeGroups = {
    "make_groups",
    "INSERT INTO groups (grp, paused_total, limits, version, format) SELECT grp, 0, '', 0, $2::bigint FROM "
    "unnest($1::text[]) AS u(grp) ON CONFLICT DO NOTHING"};
const Statement kTasksForUpdate = {
    "tasks", kept_sql(tasks_where("t.id = ANY($1::text[]) ORDER BY t.seq FOR UPDATE OF t", true))};
const Statement kTasksOfBoots = {
    "tasks_of_boots", kept_sql(tasks_where("t.owner = ANY($1::text[]) AND t.state IN (1, 2) AND t.format <= $2::bigint "
                                           "ORDER BY t.seq LIMIT 200 FOR UPDATE OF t"))};
const Statement kOwnerless = {
    "ownerless", kept_sql(tasks_where(
                     "t.owner IS NOT NULL AND t.state IN (1, 2) AND t.format <= $1::bigint AND NOT EXISTS (SELECT 1 "
                     "FROM boots o WHERE o.boot = t.owner AND NOT o.dead) ORDER BY t.seq LIMIT $2::bigint FOR UPDATE "
                     "OF t SKIP LOCKED"))};
const Statement kLatePending = {
    "late_pending", kept_sql(tasks_where(
                        "t.state = 0 AND t.deadline_at <= " + std::string(kNowSql) +
                        "$3::bigint) AND t.format <= $1::bigint AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.grp = "
                        "t.grp AND g.paused_since IS NOT NULL) ORDER BY t.deadline_at LIMIT $2::bigint FOR UPDATE OF t "
                        "SKIP LOCKED"))};
const Statement kExisting = {
    "existing",
    "SELECT t.id, t.state, t.request_hash, t.grp, t.idempotency_key, t.priority, t.tags, b.request, b.payload FROM "
    "(SELECT seq FROM tasks WHERE id = ANY($1::text[]) UNION SELECT k.seq FROM unnest($2::text[], $3::text[]) AS "
    "w(grp, key) JOIN tasks k ON k.grp = w.grp AND k.idempotency_key = w.key) AS found JOIN tasks t ON t.seq = "
    "found.seq LEFT JOIN bodies b ON b.seq = t.seq AND t.request_hash = ''"};
const Statement kRefused = {"refused", "SELECT message_id FROM refused_messages WHERE message_id = ANY($1::text[])"};
const Statement kLettersThere = {
    "letters_there", "SELECT task_id FROM dead_letters WHERE task_id = ANY($1::text[]) AND format <= $2::bigint"};
const Statement kClaimed = {"claimed", kept_sql(tasks_where("t.claim_id = ANY($1::text[]) AND t.state = 2", true))};
const Statement kCandidates = {"candidates", candidates()};
const Statement kDue = {"due", due()};
// Without locks, so what other claims have locked counts too.
const Statement kLooks = {
    "looks",
    kept_sql(std::string(
                 "SELECT g.grp, (SELECT count(*) FROM (SELECT 1 FROM tasks WHERE grp = g.grp AND state = 1 AND due_at "
                 "IS NULL AND format <= $4::bigint AND (g.without = '[]' OR NOT g.without::jsonb ? plugin) LIMIT "
                 "g.n + 1) AS counted), least((SELECT due_at FROM tasks WHERE grp = g.grp AND state = 1 AND due_at IS "
                 "NOT NULL AND due_at > ") +
             kNowSql +
             "$5::bigint) AND format <= $4::bigint ORDER BY due_at LIMIT 1), (SELECT min(kept_until) FROM (SELECT "
             "kept_until "
             "FROM tasks WHERE grp = g.grp AND state = 1 AND due_at IS NOT NULL AND due_at <= " +
             kNowSql + "$5::bigint) AND kept_until > " + kNowSql +
             "$5::bigint) AND format <= $4::bigint LIMIT 100) AS keepers)) FROM unnest($1::text[], $2::text[], "
             "$3::bigint[]) AS g(grp, without, n)")};

const Statement kInsertTasks = {"insert_tasks", insert_tasks()};
const Statement kUpdateTasks = {"update_tasks", update_tasks()};
const Statement kUpdateBodies = {
    "update_bodies",
    "UPDATE bodies AS b SET context = u.context, log = u.log FROM unnest($1::bigint[], $2::text[], $3::text[]) AS "
    "u(seq, context, log) WHERE b.seq = u.seq"};
const Statement kPoisonBodies = {
    "poison_bodies",
    "INSERT INTO bodies (seq, request, payload, context, log) SELECT seq, $2::text, '{}', '{}', '[]' FROM "
    "unnest($1::bigint[]) AS u(seq) ON CONFLICT (seq) DO UPDATE SET request = excluded.request, payload = '{}', "
    "context = '{}', log = '[]'"};
const Statement kInsertEvents = {
    "insert_events",
    "INSERT INTO events (at, kind, task_id, grp, step, detail, ordinal, format) SELECT at, kind, task_id, grp, step, "
    "detail, ordinal, $8::bigint FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], "
    "$6::text[], $7::bigint[]) WITH ORDINALITY AS u(at, kind, task_id, grp, step, detail, ordinal, place) ORDER BY "
    "place"};
const Statement kInsertAttempts = {
    "insert_attempts",
    "INSERT INTO attempts (seq, number, step, attempt, plugin, node, began_at, ended_at, outcome, error, log, format) "
    "SELECT seq, number, step, attempt, plugin, node, began_at, ended_at, outcome, error, log, $12::bigint FROM "
    "unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], "
    "$8::bigint[], $9::text[], $10::text[], $11::text[]) AS u(seq, number, step, attempt, plugin, node, began_at, "
    "ended_at, outcome, error, log) ON CONFLICT (seq, number) DO NOTHING"};
const Statement kTrimAttempts = {
    "trim_attempts",
    "DELETE FROM attempts AS a USING unnest($1::bigint[], $2::bigint[]) AS u(seq, number) WHERE a.seq = u.seq AND "
    "a.number <= u.number"};
const Statement kInsertLetters = {
    "insert_letters",
    "INSERT INTO dead_letters (task_id, grp, message_id, state, reason, plugin, step, attempts, failed_at, node, "
    "progress, log, original, format) SELECT task_id, grp, message_id, state, reason, plugin, step, attempts, "
    "failed_at, node, progress, log, original, $14::bigint FROM unnest($1::text[], $2::text[], $3::text[], "
    "$4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::double "
    "precision[], $12::text[], $13::text[]) AS u(task_id, grp, message_id, state, reason, plugin, step, attempts, "
    "failed_at, node, progress, log, original) ON CONFLICT (task_id) DO UPDATE SET grp = excluded.grp, message_id = "
    "excluded.message_id, state = excluded.state, reason = excluded.reason, plugin = excluded.plugin, step = "
    "excluded.step, attempts = excluded.attempts, failed_at = excluded.failed_at, node = excluded.node, progress = "
    "excluded.progress, log = excluded.log, original = excluded.original, format = excluded.format WHERE "
    "dead_letters.format <= excluded.format"};
const Statement kRemoveLetters = {"remove_letters",
                                  "DELETE FROM dead_letters WHERE task_id = ANY($1::text[]) AND format <= $2::bigint"};
const Statement kInsertRefused = {
    "insert_refused",
    "INSERT INTO refused_messages (message_id, at) SELECT message_id, $2::bigint FROM unnest($1::text[]) AS "
    "u(message_id) ON CONFLICT DO NOTHING"};
const Statement kPutGroups = {
    "put_groups",
    "INSERT INTO groups (grp, paused_since, paused_total, limits, version, format) SELECT grp, paused_since, "
    "paused_total, limits, version, $6::bigint FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], "
    "$5::bigint[]) AS u(grp, paused_since, paused_total, limits, version) ON CONFLICT (grp) DO UPDATE SET paused_since "
    "= excluded.paused_since, paused_total = excluded.paused_total, limits = excluded.limits, version = "
    "greatest(groups.version + 1, excluded.version), format = excluded.format"};
const Statement kInsertBoots = {
    "insert_boots",
    "INSERT INTO boots (boot, node, address, lease, joined_at) SELECT boot, node, address, lease, $5::bigint FROM "
    "unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u(boot, node, address, lease)"};
const Statement kMarkDead = {"mark_dead",
                             "UPDATE boots SET dead = true, died_at = $2::bigint WHERE boot = ANY($1::text[]) AND NOT "
                             "dead"};
const Statement kMarkBack = {"mark_back", "UPDATE boots SET came_back = true WHERE boot = ANY($1::text[])"};
const Statement kPutNumbers = {
    "put_numbers",
    "INSERT INTO numbers (name, value) SELECT name, value FROM unnest($1::text[], $2::bigint[]) AS u(name, value) ON "
    "CONFLICT (name) DO UPDATE SET value = greatest(numbers.value, excluded.value)"};
const Statement kAddHeld = {
    "add_held",
    "INSERT INTO numbers (name, value) VALUES ('held', $1::bigint) ON CONFLICT (name) DO UPDATE "
    "SET value = numbers.value + excluded.value"};

}  // namespace cohort::postgres
