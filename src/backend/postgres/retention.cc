// Part of PostgresStore: what is old is removed, by the leader alone.

#include <algorithm>
#include <utility>

#include "backend/postgres/postgres_store_impl.h"

namespace cohort {

using postgres::Answers;
using postgres::Parameters;
using postgres::Row;
using postgres::Statement;

namespace {

// What is old goes in bounded steps, by the server's clock: $1 is the age. The first column of each says how much went.
const Statement kRemoveTasks = {
    "remove_tasks",
    "WITH old AS MATERIALIZED (SELECT seq, id FROM tasks WHERE ended_at IS NOT NULL AND ended_at <= ((extract(epoch "
    "FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) AND "
    "state "
    "BETWEEN 3 AND 7 AND format <= $3::bigint ORDER BY ended_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED), b AS (DELETE "
    "FROM bodies USING old WHERE bodies.seq = old.seq), a AS (DELETE FROM attempts USING old WHERE attempts.seq = "
    "old.seq), l AS (DELETE FROM dead_letters USING old WHERE dead_letters.task_id = old.id AND dead_letters.format <= "
    "$3::bigint), t AS (DELETE FROM tasks USING old WHERE tasks.seq = old.seq RETURNING 1) SELECT count(*) FROM t"};
const Statement kRemoveEvents = {
    "remove_events",
    "WITH gone AS (DELETE FROM events WHERE id IN (SELECT id FROM events WHERE number IS NOT NULL AND at <= "
    "((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) "
    "AND format <= $3::bigint AND number <= coalesce((SELECT value FROM numbers WHERE name = 'cursor:relay'), "
    "9223372036854775807) ORDER BY number LIMIT $2::bigint) RETURNING 1) SELECT count(*) FROM gone"};
const Statement kRemoveLetters = {
    "remove_old_letters",
    "WITH gone AS (DELETE FROM dead_letters WHERE task_id IN (SELECT d.task_id FROM dead_letters d WHERE d.failed_at "
    "<= ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) AND d.format <= $3::bigint AND NOT "
    "EXISTS (SELECT 1 FROM tasks t WHERE t.id = d.task_id) ORDER BY "
    "d.failed_at LIMIT $2::bigint) RETURNING 1) SELECT count(*) FROM gone"};
const Statement kRemoveRefused = {"remove_refused",
                                  "WITH gone AS (DELETE FROM refused_messages WHERE message_id IN (SELECT message_id "
                                  "FROM refused_messages WHERE at <= "
                                  "((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) LIMIT "
                                  "$2::bigint) RETURNING 1) SELECT count(*) FROM gone"};
// The row of a boot goes only when nothing names it.
const Statement kRemoveBoots = {
    "remove_boots",
    "WITH gone AS (DELETE FROM boots WHERE boot IN (SELECT b.boot FROM boots b WHERE "
    "b.dead AND b.died_at <= ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1::bigint) "
    "AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.owner = b.boot AND t.state IN (1, 2)) "
    "LIMIT $2::bigint) RETURNING 1) "
    "SELECT count(*) FROM gone"};

}  // namespace

void PostgresStore::Impl::remove_ended(Duration older_than, std::uint32_t limit, Completion<std::uint64_t> done) {
  if (!enter()) return done(refusal());
  loop_.post([this, older_than, limit, done = std::move(done)]() mutable {
    remove_as_leader(older_than, limit, std::chrono::steady_clock::now(), std::move(done));
  });
}

// Only the leader removes what is old. A node that has just started waits until it knows who leads.
void PostgresStore::Impl::remove_as_leader(Duration older_than, std::uint32_t limit, Time since,
                                           Completion<std::uint64_t> done) {
  postgres::Session* const session = leader_->session();
  const bool is_late = is_closing_ || std::chrono::steady_clock::now() - since >= options_.patience;
  if (leader_->is_undecided() && !is_late) {
    return loop_.call_in(std::chrono::milliseconds(20),
                         [this, older_than, limit, since, done = std::move(done)]() mutable {
                           remove_as_leader(older_than, limit, since, std::move(done));
                         });
  }
  if (!leader_->leads() || session == nullptr) {
    leave();
    return done(std::uint64_t{0});
  }
  const std::int64_t before = std::chrono::duration_cast<std::chrono::microseconds>(older_than).count() - offset_us();
  std::vector<postgres::Query> queries;
  for (const Statement* each : {&kRemoveTasks, &kRemoveEvents, &kRemoveLetters}) {
    queries.push_back({each, std::move(Parameters().add(before).add(limit).add(version_))});
  }
  for (const Statement* each : {&kRemoveRefused, &kRemoveBoots}) {
    queries.push_back({each, std::move(Parameters().add(before).add(limit))});
  }
  session->exchange(std::move(queries), [this, limit, done = std::move(done)](Answers answers) mutable {
    leave();
    if (answers.failure) return done(answers.failure->to_error());
    std::uint64_t removed = 0;
    for (std::size_t i = 0; i < 2; ++i) removed = std::max(removed, Row(answers.results[i].get(), 0).number());
    Completion<void> end = [removed, done = std::move(done)](const Result<void>& expired) mutable {
      done(expired ? Result<std::uint64_t>(removed) : Result<std::uint64_t>(expired.error()));
    };
    change<void>("pending", std::move(end),
                 [limit](Completion<void> counted) { return postgres::expire_change(limit, std::move(counted)); });
  });
}

}  // namespace cohort
