// Part of Tables: which task of a group is next, claims, and what runners write.

#include <algorithm>

#include "backend/sqlite/schema.h"
#include "backend/sqlite/tables.h"

namespace cohort::sqlite {

namespace {

constexpr std::uint32_t kExpiredAtOnce = 100;
constexpr int kMaxDamagedAtOnce = 1000;

}  // namespace

bool Tables::may_have_due(const std::string& group) {
  const auto found = has_due_.find(group);
  if (found != has_due_.end()) return found->second;
  if (has_due_.size() >= kRemembered) has_due_.clear();
  StatementLease row = database_.prepare(
      "SELECT 1 FROM tasks WHERE grp = ? AND state = 1 AND due_at IS NOT NULL AND format <= ? LIMIT 1");
  row->bind(group).bind(row_format());
  return has_due_[group] = row->step();
}

// Puts tasks whose time has come among those that can be claimed. Gives one that this boot has kept, if any.
std::optional<std::int64_t> Tables::promote_due(const ClaimRequest& request) {
  const StoreTime time = now();
  std::vector<std::int64_t> due;
  std::optional<std::int64_t> own;
  for (const bool is_delay : {true, false}) {
    StatementLease rows = database_.prepare(
        "SELECT seq, owner, kept_until, plugin FROM tasks WHERE grp = ? AND state = 1 AND due_at IS NOT NULL AND "
        "(due_after IS NOT NULL) = ? AND due_at <= ? AND format <= ? ORDER BY due_at LIMIT 100");
    rows->bind(request.group).bind(is_delay).bind(is_delay ? time.steady : time.wall).bind(row_format());
    while (rows->step()) {
      const bool is_kept = !rows->is_null(2) && rows->integer(2) > time.steady.time_since_epoch().count();
      const bool is_own = !rows->is_null(2) && rows->text(1) == request.boot;
      if (is_own && std::ranges::count(request.without_plugins, rows->text(3)) == 0) {
        if (!own) own = rows->integer(0);
      } else if (!is_kept) {
        due.push_back(rows->integer(0));
      }
    }
  }
  for (const std::int64_t seq : due) {
    std::optional<ChainTask> task = read(static_cast<std::uint64_t>(seq));
    if (!task) continue;
    LoadedTask loaded(*std::move(task));
    chain_rules::reach_start(loaded.task, time);
    loaded.task.due_at.reset();
    loaded.task.due_after.reset();
    loaded.task.kept_until.reset();
    loaded.task.owner.clear();
    rows_.save(loaded, false);
  }
  return own;
}

std::optional<Duration> Tables::next_due(const std::string& group) {
  const StoreTime time = now();
  std::optional<Duration> next;
  for (const bool is_delay : {true, false}) {
    StatementLease row = database_.prepare(
        "SELECT min(due_at) FROM tasks WHERE grp = ? AND state = 1 AND due_at IS NOT NULL AND (due_after IS NOT NULL) "
        "= ? AND format <= ?");
    row->bind(group).bind(is_delay).bind(row_format());
    if (!row->step() || row->type(0) != SQLITE_INTEGER) continue;
    const WallTime due(std::chrono::microseconds(row->integer(0)));
    Duration in = chain_rules::time_until(due, is_delay ? time.steady : time.wall);
    if (in == Duration::zero()) in = std::chrono::seconds(1);  // Due and still here: another node keeps it.
    next = std::min(next.value_or(in), in);
  }
  if (!next) has_due_[group] = false;
  return next;
}

std::optional<ChainTask> Tables::next_ready(const ClaimRequest& request, bool& more) {
  static const char* const first =
      "SELECT seq FROM tasks WHERE grp = ?1 AND state = 1 AND due_at IS NULL AND format <= ?2 ORDER BY priority, seq";
  static const char* const first_without =
      "SELECT seq FROM tasks WHERE grp = ?1 AND state = 1 AND due_at IS NULL AND format <= ?2 AND plugin NOT IN "
      "(SELECT "
      "value FROM json_each(?3)) ORDER BY priority, seq";
  more = true;
  if (may_have_due(request.group)) {
    if (const std::optional<std::int64_t> own = promote_due(request)) {
      if (std::optional<ChainTask> task = read(static_cast<std::uint64_t>(*own))) return task;
    }
  }
  const std::string without = backend::lines_text(request.without_plugins);
  // A damaged row is not ready any more once it was read, so the look begins anew.
  for (int damaged = 0; damaged < kMaxDamagedAtOnce; ++damaged) {
    std::optional<std::uint64_t> next;
    {
      StatementLease rows = database_.prepare(request.without_plugins.empty() ? first : first_without);
      rows->bind(request.group).bind(row_format());
      if (!request.without_plugins.empty()) rows->bind(without);
      if (rows->step()) next = static_cast<std::uint64_t>(rows->integer(0));
      more = next && rows->step();
    }
    if (!next) return std::nullopt;
    if (std::optional<ChainTask> task = read(*next)) return task;
  }
  return std::nullopt;
}

// What this very request has claimed before; null: nothing.
const std::string* Tables::claimed_by(const ClaimRequest& request) {
  const auto found = claims_.find(request.id);
  if (found != claims_.end()) return &found->second;
  if (!has_failed_) return nullptr;
  StatementLease row =
      database_.prepare("SELECT id FROM tasks WHERE owner = ? AND state IN (1, 2) AND state = 2 AND claim_id = ?");
  row->bind(request.boot).bind(request.id);
  return row->step() ? &(claims_[request.id] = row->text(0)) : nullptr;
}

Result<ClaimAnswer> Tables::claim(const ClaimRequest& request) {
  note_sign_of_life(request.boot);
  if (!has_lease(request.boot)) return Error{ErrorCode::kStale, "boot '" + request.boot + "' has no lease"};
  const auto came_back_is = [this](const std::string& boot) { return came_back(boot); };
  if (const std::string* id = claimed_by(request)) {
    if (const LoadedTask* const loaded = find(*id)) {
      return ClaimAnswer{.task = loaded->task,
                         .suspect = chain_rules::is_suspect(loaded->task, request, came_back_is),
                         .more = true,
                         .next_in = {}};
    }
  }
  ClaimAnswer answer;
  if (pause_of(request.group).since) return answer;
  for (std::uint32_t looked = 0; looked < kExpiredAtOnce; ++looked) {
    std::optional<ChainTask> task = next_ready(request, answer.more);
    if (!task) break;
    LoadedTask loaded(*std::move(task));
    chain_rules::Effects effects;
    chain_rules::reach_start(loaded.task, now());
    if (chain_rules::is_expired(loaded.task, now(), held(request.group))) {
      chain_rules::expire(loaded.task, now(), effects);
      save(loaded, false, effects);
      continue;
    }
    if (chain_rules::convict(loaded.task, request, came_back_is, now(), effects)) {
      save(loaded, false, effects);
      continue;
    }
    answer.suspect = chain_rules::is_suspect(loaded.task, request, came_back_is);
    chain_rules::claim(loaded.task, request, loaded.task.epoch + 1, answer.suspect, now());
    save(loaded, false, effects);
    claims_[request.id] = loaded.task.id();
    answer.task = keep(std::move(loaded))->task;
    break;
  }
  if (!answer.more && may_have_due(request.group)) answer.next_in = next_due(request.group);
  return answer;
}

Result<ChainRow> Tables::write(const Claim& claim, std::uint64_t number, const RunnerWrite& write) {
  LoadedTask* const loaded = find(claim.task_id);
  if (loaded == nullptr) return no_such_task(claim.task_id);
  chain_rules::Effects effects;
  const std::uint64_t writes = loaded->task.writes;
  const auto* const checkpoint = std::get_if<Checkpoint>(&write);
  const bool body = std::holds_alternative<StepReport>(write) ||
                    (checkpoint != nullptr && checkpoint->context != loaded->task.context);
  Result<ChainRow> answer =
      chain_rules::write(loaded->task, claim, number, write, now(), held(loaded->task.request.group), effects);
  if (!answer) {
    note_sign_of_life(claim.boot);
    return answer;
  }
  if (number != 0 && writes == loaded->task.writes) return answer;  // Repeated.
  save(*loaded, body, effects);
  return answer;
}

}  // namespace cohort::sqlite
