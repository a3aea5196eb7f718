#include "backend/sqlite/tables.h"

#include <algorithm>

#include "backend/sqlite/schema.h"
#include "cohort/base/log.h"

namespace cohort::sqlite {

namespace {

constexpr std::size_t kRecentBytes = 2'000;  // Of a task that is remembered.

std::string select_where(const char* condition) {
  return std::string("SELECT ") + kTaskColumns + kTaskTables + condition;
}

}  // namespace

Tables::Tables(Database& database, StoreClock& clock, DamageLog& damage)
    : database_(database), clock_(clock), damage_(damage), rows_(database, damage) {
  begin_anew();
  has_failed_ = false;
}

void Tables::forget() {
  has_failed_ = true;
  rows_.forget();
  claimed_.clear();
  claims_.clear();
  recent_.clear();
  pauses_.clear();
  boots_.clear();
  has_due_.clear();
  held_.reset();
}

void Tables::begin_anew() {
  forget();
  // A stray row of a body or an attempt, left by damage, must not meet a new task of its number.
  last_seq_ = 0;
  for (const char* sql : {"SELECT coalesce(max(seq), 0) FROM tasks WHERE seq BETWEEN 0 AND 1 << 62",
                          "SELECT coalesce(max(seq), 0) FROM bodies WHERE seq BETWEEN 0 AND 1 << 62",
                          "SELECT coalesce(max(seq), 0) FROM attempts WHERE seq BETWEEN 0 AND 1 << 62"}) {
    last_seq_ = std::max(last_seq_, database_.value(sql));
  }
}

void Tables::clamp_times() {
  const StoreTime time = now();
  StatementLease due = database_.prepare(
      "UPDATE tasks SET due_at = ?1 + due_after / 1000 WHERE state = 1 AND due_at IS NOT NULL AND typeof(due_after) = "
      "'integer' AND typeof(due_at) = 'integer' AND due_at > ?1 + due_after / 1000 AND due_after BETWEEN 0 AND 1 << "
      "62");
  due->bind(time.steady).run();
  StatementLease deadline = database_.prepare(
      "UPDATE tasks SET deadline_at = ?1 + deadline_after / 1000 WHERE state IN (0, 1, 2) AND typeof(deadline_after) = "
      "'integer' AND (due_at IS NULL OR due_after IS NOT NULL) AND typeof(deadline_at) = 'integer' AND deadline_at > "
      "?1 + "
      "deadline_after / 1000 AND "
      "deadline_after BETWEEN 0 AND 1 << 62");
  deadline->bind(time.steady).run();
  StatementLease pause = database_.prepare(
      "UPDATE groups SET paused_since = ?1 WHERE typeof(paused_since) = 'integer' AND paused_since > ?1");
  pause->bind(time.steady).run();
}

// --- rows

std::optional<ChainTask> Tables::read(Statement& row) {
  TaskRow read = read_task_row(row);
  if (read.is_newer) return std::nullopt;
  if (read.damage.empty()) return std::move(read.task);
  rows_.poison_damaged(read.sequence, read.damage, now().wall);
  return std::nullopt;
}

LoadedTask* Tables::keep(LoadedTask task) {
  std::string id = task.task.id();
  return &claimed_.insert_or_assign(std::move(id), std::move(task)).first->second;
}

LoadedTask* Tables::find(const std::string& id) {
  const auto found = claimed_.find(id);
  if (found != claimed_.end()) return &found->second;
  static const std::string sql = select_where("WHERE t.id = ?");
  StatementLease row = database_.prepare(sql.c_str());
  row->bind(id);
  if (!row->step()) return nullptr;
  std::optional<ChainTask> task = read(*row);
  if (!task) return nullptr;
  read_.emplace(*std::move(task));
  return read_->task.state == ChainState::kProcessing ? keep(*std::move(read_)) : &*read_;
}

Error Tables::no_such_task(const std::string& id) {
  StatementLease row = database_.prepare("SELECT seq, format, state FROM tasks WHERE id = ?");
  row->bind(id);
  if (!row->step()) return {ErrorCode::kNotFound, "there is no task '" + id + "'"};
  if (row->integer(1) > row_format()) return newer_format(static_cast<std::uint64_t>(row->integer(0)));
  return {ErrorCode::kConflict, "the row of task '" + id + "' cannot be read; the task is poison"};
}

std::optional<ChainTask> Tables::read(std::uint64_t sequence) {
  static const std::string sql = select_where("WHERE t.seq = ?");
  if (const auto recent = recent_.find(sequence); recent != recent_.end()) {
    ChainTask task = std::move(recent->second);
    recent_.erase(recent);
    return task;
  }
  StatementLease row = database_.prepare(sql.c_str());
  row->bind(sequence);
  return row->step() ? read(*row) : std::nullopt;
}

void Tables::poison_if_damaged(std::uint64_t sequence) {
  recent_.erase(sequence);  // What the file has counts.
  static_cast<void>(read(sequence));
}

// Writes a row and what its transition leaves behind; a task that nobody has claimed is not kept in memory.
void Tables::save(LoadedTask& loaded, bool body, chain_rules::Effects& effects) {
  const bool was_free = loaded.state == ChainState::kReady && loaded.owner == loaded.task.owner;
  rows_.save(loaded, body);
  recent_.erase(loaded.task.sequence);
  const ChainTask& task = loaded.task;
  if (task.state == ChainState::kReady && (task.due_at || task.kept_until)) has_due_[task.request.group] = true;
  if (task.state == ChainState::kReady && !was_free) {
    rows_.news().add_ready(task.request.group, chain_rules::time_until_due_for_owner(task, now()));
  }
  for (const ChainEvent& event : effects.events) rows_.put_event(event);
  rows_.put_attempts(task, effects.attempts);
  if (effects.drops_dead_letter) rows_.remove_letter(task.id());
  if (effects.dead_letter) rows_.put_letter(*effects.dead_letter);
  if (effects.held > Duration::zero()) {
    held_ = Duration(number("held")) + effects.held;
    set_number("held", held_->count());
  }
  if (task.state == ChainState::kProcessing) return;
  claims_.erase(task.claim_id);
  claimed_.erase(std::string(task.id()));  // `loaded` may be gone with it.
}

// --- numbers, groups, boots

void Tables::set_number(const std::string& name, std::int64_t value) {
  StatementLease row = database_.prepare("INSERT OR REPLACE INTO numbers VALUES (?, ?)");
  row->bind(name).bind(value).run();
}

std::int64_t Tables::number(const std::string& name) {
  StatementLease row = database_.prepare("SELECT value FROM numbers WHERE name = ? AND typeof(value) = 'integer'");
  row->bind(name);
  return row->step() ? std::clamp<std::int64_t>(row->integer(0), 0, std::int64_t{1} << 61U) : 0;
}

auto Tables::pause_of(const std::string& group) -> Pause& {
  const auto found = pauses_.find(group);
  if (found != pauses_.end()) return found->second;
  if (pauses_.size() >= kRemembered) pauses_.clear();
  Pause pause;
  StatementLease row =
      database_.prepare("SELECT paused_since, paused_total, limits, version, format FROM groups WHERE grp = ?");
  row->bind(group);
  if (row->step()) {
    pause.is_newer = row->type(4) == SQLITE_INTEGER && row->integer(4) > row_format();
    try {
      ColumnReader columns(*row);
      pause.since = columns.time_or_null();
      pause.total = std::min(columns.duration(), Duration(std::int64_t{1} << 61U));
      pause.limits = columns.text();
      pause.version = columns.integer(0, std::int64_t{1} << 61U);
    } catch (const Damaged& broken) {
      pause.since.reset();
      pause.total = {};
      pause.limits.clear();
      pause.version = 0;
      if (!pause.is_newer) forget_pause(group, broken.what());
    }
  }
  return pauses_[group] = pause;
}

// So that readers see the same.
void Tables::forget_pause(const std::string& group, const char* damage) {
  damage_.note("groups", group, damage);
  database_.prepare("DELETE FROM groups WHERE grp = ?")->bind(group).run();
}

void Tables::mend() {
  std::vector<std::pair<std::string, std::string>> broken;
  {
    StatementLease rows =
        database_.prepare("SELECT grp, paused_since, paused_total, limits, version FROM groups WHERE format <= ?");
    rows->bind(row_format());
    while (rows->step()) {
      try {
        ColumnReader columns(*rows);
        static_cast<void>(columns.text());
        static_cast<void>(columns.time_or_null());
        static_cast<void>(columns.duration());
        static_cast<void>(columns.text());
        static_cast<void>(columns.number());
      } catch (const Damaged& damage) {
        broken.emplace_back(rows->text(0), damage.what());
      }
    }
  }
  for (const auto& [group, damage] : broken) forget_pause(group, damage.c_str());
  // No number can come after the highest there is, so a damaged one would stop all that is written from then on.
  database_.execute("DELETE FROM events WHERE seq > 1 << 62 OR seq < 0");
  if (database_.changes() != 0) damage_.note("events", "of impossible numbers", "its number is out of range");
  database_.execute(
      "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(seq), 0) FROM events) WHERE name = 'events' AND "
      "(typeof(seq) <> 'integer' OR seq NOT BETWEEN 0 AND 1 << 62)");
  const bool counts_are_good =
      database_.value("SELECT count(*) FROM counts WHERE typeof(n) <> 'integer' OR n < 0") == 0 &&
      database_.value(
          "SELECT count(*) FROM (SELECT state, sum(CASE WHEN grp = '' THEN n ELSE -n END) AS rest FROM "
          "counts WHERE state IN (0, 1, 2) GROUP BY state) WHERE rest <> 0") == 0;
  if (!counts_are_good) recount(database_);
}

Duration Tables::held(const std::string& group) {
  if (!held_) held_ = Duration(number("held"));
  const Pause& pause = pause_of(group);
  const Duration since = pause.since ? chain_rules::time_since(*pause.since, now().steady) : Duration::zero();
  return *held_ + pause.total + since;
}

Result<void> Tables::pause_group(const std::string& group, bool paused) {
  Pause& pause = pause_of(group);
  if (pause.is_newer) return newer_group(group);
  if (paused == pause.since.has_value()) return {};
  if (paused) {
    pause.since = now().steady;
  } else {
    pause.total += chain_rules::time_since(*pause.since, now().steady);
    pause.since.reset();
    rows_.news().add_ready(group, Duration::zero());
  }
  save_pause(group, pause);
  return {};
}

Result<void> Tables::set_limits(const std::string& group, const std::string& limits) {
  Pause& pause = pause_of(group);
  if (pause.is_newer) return newer_group(group);
  pause.limits = limits;
  save_pause(group, pause);
  return {};
}

Error Tables::newer_group(const std::string& group) {
  return {ErrorCode::kConflict,
          "the controls of group '" + group + "' were written by a newer version of Cohort; use that one"};
}

void Tables::save_pause(const std::string& group, Pause& pause) {
  ++pause.version;
  StatementLease row = database_.prepare(
      "INSERT OR REPLACE INTO groups (grp, paused_since, paused_total, limits, version, format) VALUES (?, ?, ?, ?, ?, "
      "?)");
  row->bind(group).bind(pause.since).bind(pause.total).bind(pause.limits).bind(pause.version).bind(row_format());
  row->run();
  rows_.news().add_control();
}

auto Tables::boot_of(const std::string& boot) -> const Boot* {
  const auto found = boots_.find(boot);
  if (found != boots_.end()) return &found->second;
  if (boots_.size() >= kRemembered) boots_.clear();
  StatementLease row = database_.prepare("SELECT lease_until, dead FROM boots WHERE boot = ?");
  row->bind(boot);
  if (!row->step()) return nullptr;
  try {
    ColumnReader columns(*row);
    const WallTime until = columns.time();
    return &(boots_[boot] = {until, columns.flag()});
  } catch (const Damaged& broken) {
    damage_.note("boots", boot, broken.what());
    return &(boots_[boot] = {WallTime(), true});
  }
}

bool Tables::came_back(const std::string& boot) {
  StatementLease row = database_.prepare("SELECT came_back FROM boots WHERE boot = ?");
  row->bind(boot);
  return row->step() && row->integer(0) != 0;
}

bool Tables::has_lease(const std::string& boot) {
  const Boot* const known = boot_of(boot);
  return known != nullptr && !known->is_dead;
}

void Tables::note_sign_of_life(const std::string& boot) {
  const Boot* const known = boot_of(boot);
  if (known == nullptr || !known->is_dead) return;
  StatementLease row = database_.prepare("UPDATE boots SET came_back = 1 WHERE boot = ? AND came_back = 0");
  row->bind(boot).run();
}

Result<void> Tables::join(const NodeLease& node, Duration lease) {
  if (!node.formerly.empty()) {
    leave(node.formerly);
    database_.prepare("UPDATE boots SET came_back = 1 WHERE boot = ?")->bind(node.formerly).run();
  }
  if (const Boot* const known = boot_of(node.boot)) {
    if (!known->is_dead) return {};
    return Error{ErrorCode::kExists, "boot '" + node.boot + "' has been used before"};
  }
  StatementLease row = database_.prepare("INSERT INTO boots VALUES (?, ?, ?, ?, 0, 0)");
  row->bind(node.boot).bind(node.node).bind(node.address).bind(saturating_add(now().steady, lease)).run();
  return {};
}

Result<void> Tables::renew(const std::string& boot, Duration lease) {
  note_sign_of_life(boot);
  if (!has_lease(boot)) return Error{ErrorCode::kStale, "the lease of boot '" + boot + "' has run out"};
  const WallTime until = saturating_add(now().steady, lease);
  StatementLease row = database_.prepare("UPDATE boots SET lease_until = ? WHERE boot = ?");
  row->bind(until).bind(boot).run();
  boots_[boot].lease_until = until;
  clock_.note_offset(database_);
  return {};
}

void Tables::free_claims_of(const std::string& boot, chain_rules::Death death, std::set<std::string>& groups) {
  std::vector<std::pair<std::int64_t, std::string>> owned;
  {
    StatementLease rows = database_.prepare("SELECT seq, id FROM tasks WHERE owner = ? AND state IN (1, 2)");
    rows->bind(boot);
    while (rows->step()) owned.emplace_back(rows->integer(0), rows->text(1));
  }
  std::uint64_t freed = 0;
  for (const auto& [sequence, id] : owned) {
    LoadedTask* const loaded = find(id);
    if (loaded == nullptr || loaded->task.sequence != static_cast<std::uint64_t>(sequence)) {
      poison_if_damaged(static_cast<std::uint64_t>(sequence));
      continue;
    }
    chain_rules::Effects effects;
    chain_rules::take_over(loaded->task, death, now(), effects);
    if (loaded->task.state == ChainState::kReady) groups.insert(loaded->task.request.group);
    save(*loaded, false, effects);
    ++freed;
  }
  StatementLease row = database_.prepare("UPDATE boots SET dead = 1, lease_until = min(lease_until, ?) WHERE boot = ?");
  row->bind(now().steady).bind(boot).run();
  boots_.erase(boot);
  if (freed == 0) return;
  rows_.log_after_commit([boot, freed, death] {
    COHORT_LOG(kInfo, "store",
               death == chain_rules::Death::kLeft ? "the node gave its tasks back"
                                                  : "the tasks of a dead node were taken over",
               {"node", boot}, {"tasks", freed});
  });
}

void Tables::leave(const std::string& boot) {
  std::set<std::string> groups;
  free_claims_of(boot, chain_rules::Death::kLeft, groups);
}

// With proof that all others are dead, the owners that stand in the rows count: a damaged row of `boots` must not keep
// a task claimed for ever.
std::vector<std::string> Tables::take_over(const std::string& boot, bool all_others) {
  std::set<std::string> dead;
  {
    StatementLease rows =
        database_.prepare("SELECT boot FROM boots WHERE dead = 0 AND boot <> ? AND (? OR lease_until <= ?)");
    rows->bind(boot).bind(all_others).bind(now().steady);
    while (rows->step()) dead.insert(rows->text(0));
  }
  if (all_others) {
    StatementLease rows =
        database_.prepare("SELECT DISTINCT owner FROM tasks WHERE owner IS NOT NULL AND state IN (1, 2)");
    while (rows->step()) {
      if (rows->text(0) != boot) dead.insert(rows->text(0));
    }
  }
  std::set<std::string> groups;
  const auto death = all_others ? chain_rules::Death::kProven : chain_rules::Death::kPresumed;
  for (const std::string& each : dead) free_claims_of(each, death, groups);
  return {groups.begin(), groups.end()};
}

// --- tasks come in

// A task that is there already is found by the unique index on its id: looking first would cost every submit.
Result<Submitted> Tables::submit(PreparedTask prepared) {
  if (!prepared.checked) return prepared.checked.error();
  if (prepared.request.id.empty()) return Error{ErrorCode::kInvalid, "the task has no id"};
  const std::string group = prepared.request.group;
  if (!prepared.request.idempotency_key.empty()) {
    StatementLease row =
        database_.prepare("SELECT id, state, request_hash FROM tasks WHERE grp = ? AND idempotency_key = ?");
    row->bind(group).bind(prepared.request.idempotency_key);
    if (row->step()) return existing(*row, prepared.request, prepared.hash);
  }
  chain_rules::Effects effects;
  ChainTask task = chain_rules::make(std::move(prepared.request), static_cast<std::uint64_t>(last_seq_ + 1), now(),
                                     held(group), effects);
  try {
    rows_.insert(task, prepared);
  } catch (const Failure& failure) {
    StatementLease row = database_.prepare("SELECT id, state, request_hash FROM tasks WHERE id = ? AND seq <> ?");
    row->bind(task.id()).bind(task.sequence);
    if ((failure.result() & 0xff) != SQLITE_CONSTRAINT || !row->step()) throw;
    return existing(*row, task.request, prepared.hash);
  }
  ++last_seq_;
  for (const ChainEvent& event : effects.events) rows_.put_event(event);
  Submitted answer{task.id(), task.state, false};
  if (task.state != ChainState::kReady) return answer;
  rows_.news().add_ready(group, chain_rules::time_until_due_for_owner(task, now()));
  if (task.due_at) {
    has_due_[group] = true;
  } else if (task.request.payload.size() + prepared.text.size() <= kRecentBytes && recent_.size() < kRemembered) {
    const std::uint64_t sequence = task.sequence;
    recent_.emplace(sequence, std::move(task));
  }
  return answer;
}

// `row` has id, state and request_hash of the task that is there.
Result<Submitted> Tables::existing(const Statement& row, const NewTask& request, const std::string& hash) {
  const std::int64_t state = row.integer(1);
  const bool is_known = row.type(1) == SQLITE_INTEGER && state >= 0 && state < std::int64_t{kChainStates};
  if (is_known && row.text(2) == hash) return Submitted{row.text(0), static_cast<ChainState>(state), true};
  if (row.text(0) == request.id) return Error{ErrorCode::kExists, "there is another task '" + request.id + "'"};
  return Error{ErrorCode::kConflict, "the idempotency key '" + request.idempotency_key + "' belongs to task '" +
                                         row.text(0) + "', which was another request"};
}

IntakeAnswer Tables::refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason) {
  const WallTime at = now().wall;
  database_.prepare("INSERT OR IGNORE INTO refused_messages VALUES (?, ?)")->bind(message.message_id).bind(at).run();
  DeadLetter letter = chain_rules::letter_of(message, reason, at);
  if (letter.task_id.empty() || find(letter.task_id) != nullptr) letter.task_id = "message:" + message.message_id;
  rows_.put_letter(letter);
  rows_.put_event(chain_rules::refusal_of(letter, at));
  return {outcome, ""};
}

IntakeAnswer Tables::take_in(TakenIn& message) {
  chain_rules::clean(message);
  {
    StatementLease row = database_.prepare("SELECT 1 FROM refused_messages WHERE message_id = ?");
    row->bind(message.message_id);
    if (row->step()) return {IntakeOutcome::kDuplicate, ""};
  }
  if (message.refused) return refuse(message, IntakeOutcome::kRefused, "");
  if (LoadedTask* loaded = find(message.task ? message.task->id : message.task_id)) {
    chain_rules::Effects effects;
    const std::string group = loaded->task.request.group;
    const IntakeOutcome outcome = chain_rules::take_in(loaded->task, message, now(), held(group), effects);
    const bool is_ready = loaded->task.state == ChainState::kReady;
    save(*loaded, false, effects);
    return {outcome, is_ready ? group : ""};
  }
  if (!message.task) {
    return refuse(message, IntakeOutcome::kUnknown, "it names task '" + message.task_id + "', which is not there");
  }
  if (message.deadline && now().wall >= *message.deadline) {
    return refuse(message, IntakeOutcome::kExpired, "it came after its deadline");
  }
  NewTask request = *message.task;
  request.pending = false;
  const Result<Submitted> made = submit(PreparedTask(std::move(request)));
  if (!made) return refuse(message, IntakeOutcome::kRefused, made.error().message);
  if (made->existed) {
    return {IntakeOutcome::kDuplicate, made->state == ChainState::kReady ? message.task->group : ""};
  }
  recent_.erase(static_cast<std::uint64_t>(last_seq_));
  database_.prepare("UPDATE tasks SET message_id = ? WHERE id = ? AND owner IS NULL AND epoch = 0")
      ->bind(message.message_id)
      .bind(made->task_id)
      .run();
  return {IntakeOutcome::kCreated, message.task->group};
}

}  // namespace cohort::sqlite
