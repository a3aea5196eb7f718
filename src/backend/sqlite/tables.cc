#include "backend/sqlite/tables.h"

#include <algorithm>

#include "backend/sqlite/task_text.h"

namespace cohort::sqlite {

// seq, id, grp, state, priority | plugin, due_at, kept_until, owner, epoch, writes, claim_id | step, attempt, …
const char* const kTaskColumns =
    "t.seq, t.id, t.grp, t.state, t.priority, t.due_at, t.kept_until, t.owner, t.epoch, t.writes, t.claim_id, "
    "t.step, t.attempt, t.failures, t.attempt_open, t.alone, t.crashes, t.died_alone_with, t.suspect, t.ran, "
    "t.created_at, t.deadline_at, "
    "t.started_at, t.ended_at, t.held_before, t.cancel_requested, t.message_id, t.progress, t.progress_note, t.error, "
    "t.tags, t.idempotency_key, b.request, b.payload, b.context, b.log";

namespace {

constexpr std::uint32_t kExpiredAtOnce = 100;

Error no_such_task(const std::string& id) { return {ErrorCode::kNotFound, "there is no task '" + id + "'"}; }

std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// A kept row always has a time: it is claimed through the index of those that have one.
std::optional<WallTime> due_column(const ChainTask& task) {
  return task.kept_until ? std::optional(task.due_at.value_or(WallTime())) : task.due_at;
}

std::string plugin_column(const ChainTask& task) { return task.callback() != nullptr ? task.callback()->plugin : ""; }

}  // namespace

ChainTask read_task(const Statement& row) {
  ChainTask task;
  int at = 0;
  const auto integer = [&] { return row.integer(at++); };
  const auto text = [&] { return row.text(at++); };
  const auto count = [&] { return static_cast<std::uint32_t>(row.integer(at++)); };
  task.sequence = static_cast<std::uint64_t>(integer());
  task.request.id = text();
  task.request.group = text();
  task.state = static_cast<ChainState>(integer());
  task.request.priority = static_cast<Priority>(integer());
  task.due_at = row.time_if_any(at++);
  task.kept_until = row.time_if_any(at++);
  task.owner = text();
  task.epoch = static_cast<std::uint64_t>(integer());
  task.writes = static_cast<std::uint64_t>(integer());
  task.claim_id = text();
  task.step = count();
  task.attempt = count();
  task.failures = count();
  task.attempt_open = integer() != 0;
  task.alone = integer() != 0;
  task.crashes = read_lines(text());
  task.died_alone_with = text();
  task.suspect = integer() != 0;
  task.ran = Duration(integer());
  task.created_at = row.time(at++);
  task.deadline_at = row.time(at++);
  task.started_at = row.time_if_any(at++);
  task.ended_at = row.time_if_any(at++);
  task.held_before = Duration(integer());
  task.cancel_requested = integer() != 0;
  task.message_id = text();
  task.progress = row.real(at++);
  task.progress_note = text();
  task.error = text();
  task.request.tags = read_lines(text());
  task.request.idempotency_key = text();
  read_request(text(), task.request);
  task.request.payload = text();
  task.context = text();
  task.log = read_lines(text());
  return task;
}

std::optional<ChainTask> read_task(Database& database, const std::string& id) {
  static const std::string sql =
      std::string("SELECT ") + kTaskColumns + " FROM tasks t CROSS JOIN bodies b ON b.seq = t.seq WHERE t.id = ?";
  Use row = database.prepare(sql.c_str());
  row->bind(id);
  return row->step() ? std::optional(read_task(*row)) : std::nullopt;
}

DeadLetter read_letter(const Statement& row) {
  return {.task_id = row.text(0),
          .group = row.text(1),
          .message_id = row.text(2),
          .state = static_cast<ChainState>(row.integer(3)),
          .reason = row.text(4),
          .callback = row.text(5),
          .step = static_cast<std::uint32_t>(row.integer(6)),
          .attempts = static_cast<std::uint32_t>(row.integer(7)),
          .failed_at = row.time(8),
          .node = row.text(9),
          .progress = row.real(10),
          .log = read_lines(row.text(11)),
          .original = row.text(12)};
}

Tables::Tables(Database& database, WallClock& clock) : database_(database), clock_(clock) {
  begin_anew();
  has_failed_ = false;
}

void Tables::forget() {
  has_failed_ = true;
  claimed_.clear();
  claims_.clear();
  pauses_.clear();
  held_.reset();
}

void Tables::begin_anew() {
  forget();
  last_seq_ = database_.value("SELECT coalesce(max(seq), 0) FROM tasks");
}

// --- rows

void Tables::insert(const ChainTask& task) {
  Use row = database_.prepare(
      "INSERT INTO tasks (seq, id, grp, state, priority, plugin, due_at, kept_until, owner, epoch, writes, claim_id, "
      "step, attempt, failures, attempt_open, alone, crashes, died_alone_with, suspect, ran, created_at, deadline_at, "
      "started_at, "
      "ended_at, held_before, cancel_requested, message_id, progress, progress_note, error, tags, idempotency_key, "
      "request_hash) VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, 0, 0, '', 0, 0, 0, 0, 0, '[]', '', 0, 0, ?, ?, NULL, ?, "
      "?, "
      "0, ?, 0, '', '', ?, ?, ?)");
  const std::string plugin = plugin_column(task);
  const std::string tags = lines_text(task.request.tags);
  const std::string hash = request_hash(task.request);
  const std::optional<std::string> key = text_or_null(task.request.idempotency_key);
  row->bind(task.sequence).bind(task.id()).bind(task.request.group).bind(static_cast<int>(task.state));
  row->bind(static_cast<int>(task.request.priority)).bind(plugin).bind(due_column(task));
  row->bind(task.created_at).bind(task.deadline_at).bind(task.ended_at).bind(task.held_before).bind(task.message_id);
  row->bind(tags).bind(key).bind(hash);
  row->run();
  Use body = database_.prepare("INSERT INTO bodies (seq, request, payload, context, log) VALUES (?, ?, ?, ?, '[]')");
  const std::string request = request_text(task.request);
  body->bind(task.sequence).bind(request).bind(task.request.payload).bind(task.context);
  body->run();
}

void Tables::save(const ChainTask& task, bool body) {
  Use row = database_.prepare(
      "UPDATE tasks SET state = ?, plugin = ?, due_at = ?, kept_until = ?, owner = ?, epoch = ?, writes = ?, "
      "claim_id = ?, step = ?, attempt = ?, failures = ?, attempt_open = ?, alone = ?, crashes = ?, died_alone_with = "
      "?, suspect = ?, "
      "ran = ?, deadline_at = ?, started_at = ?, ended_at = ?, held_before = ?, cancel_requested = ?, message_id = ?, "
      "progress = ?, progress_note = ?, error = ? WHERE seq = ?");
  const std::string plugin = plugin_column(task);
  const std::string crashes = lines_text(task.crashes);
  const std::optional<std::string> owner = text_or_null(task.owner);
  row->bind(static_cast<int>(task.state)).bind(plugin).bind(due_column(task)).bind(task.kept_until).bind(owner);
  row->bind(task.epoch).bind(task.writes).bind(task.claim_id).bind(task.step).bind(task.attempt).bind(task.failures);
  row->bind(task.attempt_open)
      .bind(task.alone)
      .bind(crashes)
      .bind(task.died_alone_with)
      .bind(task.suspect)
      .bind(task.ran)
      .bind(task.deadline_at);
  row->bind(task.started_at).bind(task.ended_at).bind(task.held_before).bind(task.cancel_requested);
  row->bind(task.message_id).bind(task.progress).bind(task.progress_note).bind(task.error).bind(task.sequence);
  row->run();
  if (!body) return;
  Use rest = database_.prepare("UPDATE bodies SET context = ?, log = ? WHERE seq = ?");
  const std::string log = lines_text(task.log);
  rest->bind(task.context).bind(log).bind(task.sequence);
  rest->run();
}

ChainTask* Tables::keep(ChainTask task) { return &claimed_.insert_or_assign(task.id(), std::move(task)).first->second; }

ChainTask* Tables::find(const std::string& id) {
  const auto found = claimed_.find(id);
  if (found != claimed_.end()) return &found->second;
  read_ = read_task(database_, id);
  if (!read_) return nullptr;
  return read_->state == ChainState::kProcessing ? keep(*std::move(read_)) : &*read_;
}

// Writes what a transition leaves behind; a task that nobody has claimed is not kept in memory.
void Tables::apply(const ChainTask& task, chain_rules::Effects& effects) {
  for (const ChainEvent& event : effects.events) put_event(event);
  if (effects.drops_dead_letter) {
    Use row = database_.prepare("DELETE FROM dead_letters WHERE task_id = ?");
    row->bind(task.id()).run();
  }
  if (effects.dead_letter) put_letter(*effects.dead_letter);
  if (effects.held > Duration::zero()) {
    held_ = Duration(number("held")) + effects.held;
    set_number("held", held_->count());
  }
  if (task.state == ChainState::kProcessing) return;
  claims_.erase(task.claim_id);
  claimed_.erase(std::string(task.id()));
}

void Tables::put_event(const ChainEvent& event) {
  Use row = database_.prepare("INSERT INTO events (at, kind, task_id, grp, step, detail) VALUES (?, ?, ?, ?, ?, ?)");
  row->bind(event.at).bind(event.kind).bind(event.task_id).bind(event.group).bind(event.step).bind(event.detail);
  row->run();
}

void Tables::put_letter(const DeadLetter& letter) {
  Use row = database_.prepare("INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const std::string log = lines_text(letter.log);
  row->bind(letter.task_id).bind(letter.group).bind(letter.message_id).bind(static_cast<int>(letter.state));
  row->bind(letter.reason).bind(letter.callback).bind(letter.step).bind(letter.attempts).bind(letter.failed_at);
  row->bind(letter.node).bind(letter.progress).bind(log).bind(letter.original);
  row->run();
}

// --- numbers, groups, boots

void Tables::set_number(const std::string& name, std::int64_t value) {
  Use row = database_.prepare("INSERT OR REPLACE INTO numbers VALUES (?, ?)");
  row->bind(name).bind(value).run();
}

std::int64_t Tables::number(const std::string& name) {
  Use row = database_.prepare("SELECT value FROM numbers WHERE name = ?");
  row->bind(name);
  return row->step() ? row->integer(0) : 0;
}

auto Tables::pause_of(const std::string& group) -> Pause& {
  constexpr std::size_t kRemembered = 10'000;
  const auto found = pauses_.find(group);
  if (found != pauses_.end()) return found->second;
  if (pauses_.size() >= kRemembered) pauses_.clear();
  Pause pause;
  Use row = database_.prepare("SELECT paused_since, paused_total FROM groups WHERE grp = ?");
  row->bind(group);
  if (row->step()) pause = {row->time_if_any(0), Duration(row->integer(1))};
  return pauses_[group] = pause;
}

Duration Tables::held(const std::string& group) {
  if (!held_) held_ = Duration(number("held"));
  const Pause& pause = pause_of(group);
  return *held_ + pause.total + (pause.since ? Duration(now() - *pause.since) : Duration::zero());
}

void Tables::pause_group(const std::string& group, bool paused) {
  Pause& pause = pause_of(group);
  if (paused == pause.since.has_value()) return;
  if (paused) {
    pause.since = now();
  } else {
    pause.total += now() - *pause.since;
    pause.since.reset();
  }
  Use row = database_.prepare("INSERT OR REPLACE INTO groups VALUES (?, ?, ?)");
  row->bind(group).bind(pause.since).bind(pause.total).run();
}

bool Tables::came_back(const std::string& boot) {
  Use row = database_.prepare("SELECT came_back FROM boots WHERE boot = ?");
  row->bind(boot);
  return row->step() && row->integer(0) != 0;
}

bool Tables::has_lease(const std::string& boot) {
  Use row = database_.prepare("SELECT 1 FROM boots WHERE boot = ? AND dead = 0 AND lease_until > ?");
  row->bind(boot).bind(now());
  return row->step();
}

void Tables::note_sign_of_life(const std::string& boot) {
  Use row = database_.prepare("UPDATE boots SET came_back = 1 WHERE boot = ? AND dead = 1 AND came_back = 0");
  row->bind(boot).run();
}

Result<void> Tables::join(const NodeLease& node, Duration lease) {
  if (!node.formerly.empty()) {
    leave(node.formerly);
    database_.prepare("UPDATE boots SET came_back = 1 WHERE boot = ?")->bind(node.formerly).run();
  }
  {
    Use row = database_.prepare("SELECT dead FROM boots WHERE boot = ?");
    row->bind(node.boot);
    if (row->step()) {
      if (row->integer(0) == 0) return {};
      return Error{ErrorCode::kExists, "boot '" + node.boot + "' has been used before"};
    }
  }
  Use row = database_.prepare("INSERT INTO boots VALUES (?, ?, ?, ?, 0, 0)");
  row->bind(node.boot).bind(node.node).bind(node.address).bind(saturating_add(now(), lease)).run();
  return {};
}

Result<void> Tables::renew(const std::string& boot, Duration lease) {
  note_sign_of_life(boot);
  if (!has_lease(boot)) return Error{ErrorCode::kStale, "the lease of boot '" + boot + "' has run out"};
  Use row = database_.prepare("UPDATE boots SET lease_until = ? WHERE boot = ?");
  row->bind(saturating_add(now(), lease)).bind(boot).run();
  return {};
}

void Tables::free_claims_of(const std::string& boot, chain_rules::Death death, std::set<std::string>& groups) {
  std::vector<std::string> ids;
  {
    Use rows = database_.prepare("SELECT id FROM tasks WHERE owner = ? AND state IN (1, 2)");
    rows->bind(boot);
    while (rows->step()) ids.push_back(rows->text(0));
  }
  for (const std::string& id : ids) {
    ChainTask& task = *find(id);
    chain_rules::Effects effects;
    chain_rules::take_over(task, death, now(), effects);
    save(task, false);
    if (task.state == ChainState::kReady) groups.insert(task.request.group);
    apply(task, effects);
  }
  Use row = database_.prepare("UPDATE boots SET dead = 1 WHERE boot = ?");
  row->bind(boot).run();
}

void Tables::leave(const std::string& boot) {
  std::set<std::string> groups;
  free_claims_of(boot, chain_rules::Death::kLeft, groups);
}

std::vector<std::string> Tables::take_over(const std::string& boot, bool all_others) {
  std::vector<std::string> dead;
  {
    Use rows = database_.prepare("SELECT boot FROM boots WHERE dead = 0 AND boot <> ? AND (? OR lease_until <= ?)");
    rows->bind(boot).bind(all_others).bind(now());
    while (rows->step()) dead.push_back(rows->text(0));
  }
  std::set<std::string> groups;
  const auto death = all_others ? chain_rules::Death::kProven : chain_rules::Death::kPresumed;
  for (const std::string& each : dead) free_claims_of(each, death, groups);
  return {groups.begin(), groups.end()};
}

// --- tasks come in

Result<Submitted> Tables::submit(NewTask request) {
  if (auto good = check(request); !good) return good.error();
  if (request.id.empty()) return Error{ErrorCode::kInvalid, "the task has no id"};
  const auto answer_of = [&](Use& row) -> Result<Submitted> {
    if (row->text(2) == request_hash(request)) {
      return Submitted{row->text(0), static_cast<ChainState>(row->integer(1)), true};
    }
    if (row->text(0) == request.id) return Error{ErrorCode::kExists, "there is another task '" + request.id + "'"};
    return Error{ErrorCode::kConflict, "the idempotency key '" + request.idempotency_key + "' belongs to task '" +
                                           row->text(0) + "', which was another request"};
  };
  if (!request.idempotency_key.empty()) {
    Use row = database_.prepare("SELECT id, state, request_hash FROM tasks WHERE grp = ? AND idempotency_key = ?");
    row->bind(request.group).bind(request.idempotency_key);
    if (row->step()) return answer_of(row);
  }
  {
    Use row = database_.prepare("SELECT id, state, request_hash FROM tasks WHERE id = ?");
    row->bind(request.id);
    if (row->step()) return answer_of(row);
  }
  chain_rules::Effects effects;
  const std::string group = request.group;
  const ChainTask task =
      chain_rules::make(std::move(request), static_cast<std::uint64_t>(++last_seq_), now(), held(group), effects);
  insert(task);
  apply(task, effects);
  return Submitted{task.id(), task.state, false};
}

IntakeAnswer Tables::refuse(const TakenIn& message, IntakeOutcome outcome, const std::string& reason) {
  database_.prepare("INSERT OR IGNORE INTO refused_messages VALUES (?, ?)")->bind(message.message_id).bind(now()).run();
  DeadLetter letter = chain_rules::letter_of(message, reason, now());
  if (letter.task_id.empty() || find(letter.task_id) != nullptr) letter.task_id = "message:" + message.message_id;
  put_letter(letter);
  put_event(chain_rules::refusal_of(letter, now()));
  return {outcome, ""};
}

IntakeAnswer Tables::take_in(TakenIn& message) {
  {
    Use row = database_.prepare("SELECT 1 FROM refused_messages WHERE message_id = ?");
    row->bind(message.message_id);
    if (row->step()) return {IntakeOutcome::kDuplicate, ""};
  }
  if (message.refused) return refuse(message, IntakeOutcome::kRefused, "");
  if (ChainTask* task = find(message.task ? message.task->id : message.task_id)) {
    chain_rules::Effects effects;
    const std::string group = task->request.group;
    const IntakeOutcome outcome = chain_rules::take_in(*task, message, now(), held(group), effects);
    const bool is_ready = task->state == ChainState::kReady;
    save(*task, false);
    apply(*task, effects);
    return {outcome, is_ready ? group : ""};
  }
  if (!message.task) {
    return refuse(message, IntakeOutcome::kUnknown, "it names task '" + message.task_id + "', which is not there");
  }
  if (message.deadline && now() >= *message.deadline) {
    return refuse(message, IntakeOutcome::kExpired, "it came after its deadline");
  }
  NewTask request = *message.task;
  request.pending = false;
  const Result<Submitted> made = submit(request);
  if (!made) return refuse(message, IntakeOutcome::kRefused, made.error().message);
  if (made->existed) {
    return {IntakeOutcome::kDuplicate, made->state == ChainState::kReady ? message.task->group : ""};
  }
  database_.prepare("UPDATE tasks SET message_id = ? WHERE id = ?")->bind(message.message_id).bind(made->task_id).run();
  return {IntakeOutcome::kCreated, message.task->group};
}

// --- claims

// Puts tasks whose time has come among those that can be claimed. Gives one that this boot has kept, if any.
std::optional<std::int64_t> Tables::promote_due(const ClaimRequest& request) {
  std::vector<std::int64_t> due;
  std::optional<std::int64_t> own;
  {
    Use rows = database_.prepare(
        "SELECT seq, owner, kept_until, plugin FROM tasks WHERE grp = ? AND state = 1 AND due_at <= ? "
        "AND due_at IS NOT NULL ORDER BY due_at LIMIT 100");
    rows->bind(request.group).bind(now());
    while (rows->step()) {
      const std::optional<WallTime> kept_until = rows->time_if_any(2);
      const bool is_own = kept_until && rows->text(1) == request.boot;
      if (is_own && std::ranges::count(request.without_plugins, rows->text(3)) == 0) {
        if (!own) own = rows->integer(0);
      } else if (!kept_until || *kept_until <= now()) {
        due.push_back(rows->integer(0));
      }
    }
  }
  for (const std::int64_t seq : due) {
    Use row = database_.prepare("UPDATE tasks SET due_at = NULL, kept_until = NULL, owner = NULL WHERE seq = ?");
    row->bind(seq).run();
  }
  return own;
}

std::optional<ChainTask> Tables::next_ready(const ClaimRequest& request, bool& more) {
  static const std::string by_seq =
      std::string("SELECT ") + kTaskColumns + " FROM tasks t CROSS JOIN bodies b ON b.seq = t.seq WHERE t.seq = ?";
  static const std::string first =
      std::string("SELECT ") + kTaskColumns +
      " FROM tasks t CROSS JOIN bodies b ON b.seq = t.seq WHERE t.grp = ? AND t.state = 1 AND "
      "t.due_at IS NULL ORDER BY t.priority, t.seq";
  static const std::string first_without =
      std::string("SELECT ") + kTaskColumns +
      " FROM tasks t CROSS JOIN bodies b ON b.seq = t.seq WHERE t.grp = ?1 AND t.state = 1 AND t.due_at IS NULL AND "
      "t.plugin NOT IN (SELECT value FROM json_each(?2)) ORDER BY t.priority, t.seq";
  more = true;
  if (const std::optional<std::int64_t> own = promote_due(request)) {
    Use row = database_.prepare(by_seq.c_str());
    row->bind(*own);
    if (row->step()) return read_task(*row);
  }
  Use row = database_.prepare(request.without_plugins.empty() ? first.c_str() : first_without.c_str());
  const std::string without = lines_text(request.without_plugins);
  row->bind(request.group);
  if (!request.without_plugins.empty()) row->bind(without);
  std::optional<ChainTask> task;
  if (row->step()) task = read_task(*row);
  more = task && row->step();
  return task;
}

// What this very request has claimed before; null: nothing.
const std::string* Tables::claimed_by(const ClaimRequest& request) {
  const auto found = claims_.find(request.id);
  if (found != claims_.end()) return &found->second;
  if (!has_failed_) return nullptr;
  Use row =
      database_.prepare("SELECT id FROM tasks WHERE owner = ? AND state IN (1, 2) AND state = 2 AND claim_id = ?");
  row->bind(request.boot).bind(request.id);
  return row->step() ? &(claims_[request.id] = row->text(0)) : nullptr;
}

Result<ClaimAnswer> Tables::claim(const ClaimRequest& request) {
  note_sign_of_life(request.boot);
  if (!has_lease(request.boot)) return Error{ErrorCode::kStale, "boot '" + request.boot + "' has no lease"};
  const auto came_back_is = [this](const std::string& boot) { return came_back(boot); };
  if (const std::string* id = claimed_by(request)) {
    const ChainTask& task = *find(*id);
    return ClaimAnswer{
        .task = task, .suspect = chain_rules::is_suspect(task, came_back_is), .more = true, .next_in = {}};
  }
  ClaimAnswer answer;
  if (pause_of(request.group).since) return answer;
  for (std::uint32_t looked = 0; looked < kExpiredAtOnce; ++looked) {
    std::optional<ChainTask> task = next_ready(request, answer.more);
    if (!task) break;
    chain_rules::Effects effects;
    if (chain_rules::is_expired(*task, now(), held(request.group))) {
      chain_rules::expire(*task, now(), effects);
      save(*task, false);
      apply(*task, effects);
      continue;
    }
    if (chain_rules::convict(*task, came_back_is, now(), effects)) {
      save(*task, false);
      apply(*task, effects);
      continue;
    }
    answer.suspect = chain_rules::is_suspect(*task, came_back_is);
    chain_rules::claim(*task, request, task->epoch + 1, answer.suspect, now());
    save(*task, false);
    claims_[request.id] = task->id();
    answer.task = *keep(*std::move(task));
    break;
  }
  if (!answer.more) {
    Use row = database_.prepare("SELECT min(due_at) FROM tasks WHERE grp = ? AND state = 1 AND due_at IS NOT NULL");
    row->bind(request.group);
    // One that is due and still here is kept by another node.
    if (row->step() && !row->is_null(0)) {
      const Duration in = chain_rules::time_until(row->time(0), now());
      answer.next_in = in > Duration::zero() ? in : Duration(std::chrono::seconds(1));
    }
  }
  return answer;
}

Result<Written> Tables::write(const Claim& claim, std::uint64_t number, const RunnerWrite& write) {
  ChainTask* task = find(claim.task_id);
  if (task == nullptr) return no_such_task(claim.task_id);
  chain_rules::Effects effects;
  const std::uint64_t writes = task->writes;
  Result<Written> answer = chain_rules::write(*task, claim, number, write, now(), effects);
  if (!answer) {
    note_sign_of_life(claim.boot);
    return answer;
  }
  if (number != 0 && writes == task->writes) return answer;  // Repeated.
  save(*task, std::holds_alternative<Checkpoint>(write) || std::holds_alternative<StepReport>(write));
  apply(*task, effects);
  return answer;
}

// --- control

Result<Written> Tables::cancel(const std::string& id, const std::string& reason) {
  ChainTask* task = find(id);
  if (task == nullptr) return no_such_task(id);
  chain_rules::Effects effects;
  Result<Written> answer = chain_rules::cancel(*task, reason, now(), effects);
  if (answer) save(*task, false);
  apply(*task, effects);
  return answer;
}

Result<ChainTask> Tables::replay(const ReplayRequest& request) {
  ChainTask* task = find(request.task_id);
  if (task == nullptr) return no_such_task(request.task_id);
  chain_rules::Effects effects;
  const Result<void> good = chain_rules::replay(*task, request, now(), held(std::string(task->request.group)), effects);
  if (good) save(*task, false);
  ChainTask copy = *task;
  apply(copy, effects);
  if (!good) return good.error();
  return copy;
}

std::uint64_t Tables::command(const Command& command) {
  Use row = database_.prepare("INSERT INTO commands (at, kind, target, arguments, actor) VALUES (?, ?, ?, ?, ?)");
  row->bind(now()).bind(command.kind).bind(command.target).bind(command.arguments).bind(command.actor);
  row->run();
  return static_cast<std::uint64_t>(database_.value("SELECT last_insert_rowid()"));
}

Result<void> Tables::discard_dead_letter(const std::string& id) {
  Use row = database_.prepare("DELETE FROM dead_letters WHERE task_id = ?");
  row->bind(id).run();
  if (database_.changes() == 0) return Error{ErrorCode::kNotFound, "task '" + id + "' has no dead letter"};
  return {};
}

void Tables::expire_pending(std::uint32_t limit) {
  std::vector<std::string> late;
  {
    Use rows =
        database_.prepare("SELECT id FROM tasks WHERE state = 0 AND deadline_at <= ? ORDER BY deadline_at LIMIT ?");
    rows->bind(now()).bind(limit);
    while (rows->step()) late.push_back(rows->text(0));
  }
  for (const std::string& id : late) {
    ChainTask& task = *find(id);
    if (!chain_rules::is_expired(task, now(), held(std::string(task.request.group)))) continue;
    chain_rules::Effects effects;
    chain_rules::expire(task, now(), effects);
    save(task, false);
    apply(task, effects);
  }
}

std::uint64_t Tables::remove_ended(Duration older_than, std::uint32_t limit) {
  const WallTime before = now() - std::chrono::duration_cast<std::chrono::microseconds>(older_than);
  std::vector<std::pair<std::int64_t, std::string>> ended;
  {
    Use rows = database_.prepare(
        "SELECT seq, id FROM tasks WHERE ended_at IS NOT NULL AND ended_at <= ? ORDER BY ended_at LIMIT ?");
    rows->bind(before).bind(limit);
    while (rows->step()) ended.emplace_back(rows->integer(0), rows->text(1));
  }
  for (const auto& [seq, id] : ended) {
    database_.prepare("DELETE FROM tasks WHERE seq = ?")->bind(seq).run();
    database_.prepare("DELETE FROM bodies WHERE seq = ?")->bind(seq).run();
    database_.prepare("DELETE FROM dead_letters WHERE task_id = ?")->bind(id).run();
    claimed_.erase(id);
  }
  database_
      .prepare(
          "DELETE FROM events WHERE at <= ? AND seq < (SELECT coalesce(min(seq), 0) FROM events) + ? AND "
          "seq <= coalesce((SELECT value FROM numbers WHERE name = 'cursor:relay'), 1 << 62)")
      ->bind(before)
      .bind(limit)
      .run();
  const auto events = static_cast<std::uint64_t>(database_.changes());
  for (const char* sql :
       {"DELETE FROM commands WHERE seq IN (SELECT seq FROM commands c WHERE at <= ? AND NOT (kind = 'resize_group' "
        "AND "
        "seq = (SELECT max(seq) FROM commands l WHERE l.kind = 'resize_group' AND l.target = c.target)) LIMIT ?)",
        "DELETE FROM refused_messages WHERE message_id IN (SELECT message_id FROM refused_messages WHERE at <= ? LIMIT "
        "?)",
        "DELETE FROM boots WHERE boot IN (SELECT boot FROM boots WHERE dead = 1 AND lease_until <= ? LIMIT ?)",
        "DELETE FROM dead_letters WHERE task_id IN (SELECT d.task_id FROM dead_letters d WHERE d.failed_at <= ? AND "
        "NOT "
        "EXISTS (SELECT 1 FROM tasks t WHERE t.id = d.task_id) LIMIT ?)"}) {
    database_.prepare(sql)->bind(before).bind(limit).run();
  }
  expire_pending(limit);
  return std::max<std::uint64_t>(ended.size(), events);
}

}  // namespace cohort::sqlite
