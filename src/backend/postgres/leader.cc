#include "backend/postgres/leader.h"

#include <utility>

#include "backend/postgres/wire.h"
#include "cohort/base/log.h"

namespace cohort::postgres {

namespace {

const Statement kLook = {"leader_look", "SELECT holder, term, renewals FROM leaders WHERE name = 'events'"};
const Statement kTake = {
    "leader_take",
    "UPDATE leaders SET holder = $1::text, term = term + 1, renewals = 0 WHERE name = 'events' AND "
    "holder = $2::text AND term = $3::bigint RETURNING term"};
const Statement kResign = {
    "leader_resign",
    "UPDATE leaders SET holder = '' WHERE name = 'events' AND holder = $1::text AND term = $2::bigint"};
const Statement kRenew = {"leader_renew",
                          "UPDATE leaders SET renewals = renewals + 1 WHERE name = 'events' AND holder = $1::text AND "
                          "term = $2::bigint RETURNING last_number"};
// The row of the leader is locked first, so two leaders cannot number at once. A statement that waited for that lock
// may have older events in view, and those that were numbered meanwhile are left alone.
const Statement kNumber = {
    "leader_number",
    "WITH lead AS MATERIALIZED (SELECT last_number FROM leaders WHERE name = 'events' AND holder = $1::text AND term = "
    "$2::bigint FOR UPDATE), fresh AS MATERIALIZED (SELECT id, row_number() OVER (ORDER BY id) AS place FROM (SELECT "
    "id "
    "FROM events WHERE number IS NULL AND EXISTS (SELECT 1 FROM lead) ORDER BY id LIMIT 1000) AS oldest), done AS "
    "(UPDATE "
    "events AS e SET number = lead.last_number + fresh.place FROM fresh, lead WHERE e.id = fresh.id AND e.number IS "
    "NULL "
    "RETURNING 1) UPDATE leaders SET last_number = last_number + (SELECT count(*) FROM fresh) WHERE name = 'events' "
    "AND "
    "holder = $1::text AND term = $2::bigint RETURNING last_number, (SELECT count(*) FROM fresh), (SELECT count(*) "
    "FROM "
    "done)"};
const Statement kHasNew = {"leader_has_new", "SELECT EXISTS (SELECT 1 FROM events WHERE number IS NULL)"};

constexpr std::int64_t kAtOnce = 1000;

}  // namespace

Leader::Leader(Loop& loop, Connect connect, std::string instance, Hooks hooks)
    : loop_(loop),
      link_(loop, std::move(connect),
            {.up =
                 [this] {
                   if (!std::exchange(is_ticking_, true)) tick();
                   look();
                 },
             .down = [this](const Failure&) { is_numbering_ = false; }}),
      instance_(std::move(instance)),
      hooks_(std::move(hooks)) {
  loop_.add(link_);
}

void Leader::tick() {
  if (hooks_.is_closing()) return;
  look();
  loop_.call_in(kTick, [this] { tick(); });
}

void Leader::look() {
  if (link_.session() == nullptr) return;
  if (leads()) {
    link_.session()->exchange({{&kRenew, std::move(Parameters().add(instance_).add(term_))}}, [this](Answers answers) {
      if (answers.failure) return;
      if (rows_of(answers.results.front()) == 0) {
        term_ = 0;
        return;
      }
      poke();
    });
    return;
  }
  link_.session()->exchange({{&kLook}}, [this](Answers answers) {
    if (answers.failure || rows_of(answers.results.front()) == 0) return;
    Row row(answers.results.front().get(), 0);
    const std::string holder = row.text();
    const std::int64_t term = row.integer();
    const std::pair seen{term, row.integer()};
    const Time now = boottime_clock().now();
    if (seen != seen_) {
      seen_ = seen;
      seen_since_ = now;
    }
    if (holder.empty() || holder == instance_ || now - seen_since_ >= kLease) return take(holder, term);
    is_undecided_ = false;
  });
}

void Leader::take(const std::string& holder, std::int64_t term) {
  if (link_.session() == nullptr || hooks_.is_closing()) return;
  link_.session()->exchange({{&kTake, std::move(Parameters().add(instance_).add(holder).add(term))}},
                            [this](Answers answers) {
                              is_undecided_ = false;
                              if (answers.failure || rows_of(answers.results.front()) == 0) return;
                              term_ = Row(answers.results.front().get(), 0).integer();
                              poke();
                            });
}

void Leader::poke() {
  if (!leads() || link_.session() == nullptr) return;
  if (is_numbering_) {
    is_poked_ = true;
    return;
  }
  is_numbering_ = true;
  is_poked_ = false;
  link_.session()->exchange({{&kHasNew}}, [this](Answers answers) {
    if (!answers.failure && Row(answers.results.front().get(), 0).flag()) return number();
    is_numbering_ = false;
    if (!answers.failure && is_poked_) poke();
  });
}

void Leader::number() {
  if (link_.session() == nullptr) {
    is_numbering_ = false;
    return;
  }
  link_.session()->exchange({{&kNumber, std::move(Parameters().add(instance_).add(term_))}}, [this](Answers answers) {
    is_numbering_ = false;
    if (answers.failure && !answers.failure->may_pass()) {
      COHORT_LOG(kError, "store", "events cannot be numbered", {"error", answers.failure->message});
    }
    if (answers.failure) return;
    if (rows_of(answers.results.front()) == 0) {
      term_ = 0;
      return;
    }
    Row row(answers.results.front().get(), 0);
    const std::uint64_t last = row.number();
    const std::int64_t found = row.integer();
    if (row.integer() != 0) hooks_.numbered(last);
    if (found == kAtOnce || is_poked_) poke();
  });
}

void Leader::resign(Function<void()> done) {
  if (!leads() || link_.session() == nullptr) return done();
  const std::int64_t term = std::exchange(term_, 0);
  link_.session()->exchange({{&kResign, std::move(Parameters().add(instance_).add(term))}},
                            [done = std::move(done)](Answers) mutable { done(); });
}

}  // namespace cohort::postgres
