// Part of Transaction: the rows in memory, and what calls make of them.

#include <algorithm>

#include "backend/postgres/transaction.h"

namespace cohort::postgres {

ChainTask* Transaction::task(const std::string& id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.is_newer || found->second.is_damaged) return nullptr;
  return &found->second.task;
}

Error Transaction::no_such_task(const std::string& id) const {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return {ErrorCode::kNotFound, "there is no task '" + id + "'"};
  if (found->second.is_newer) {
    return {ErrorCode::kConflict,
            "task '" + id + "' was written by a newer version of Cohort; this one leaves it alone"};
  }
  return {ErrorCode::kConflict, "the row of task '" + id + "' cannot be read; the task is poison"};
}

auto Transaction::existing_key(const std::string& group, const std::string& key) const -> const Existing* {
  const auto found = existing_keys_there_.find({group, key});
  return found != existing_keys_there_.end() ? &existing_.at(found->second) : nullptr;
}

auto Transaction::existing_id(const std::string& id) const -> const Existing* {
  const auto found = existing_.find(id);
  return found != existing_.end() ? &found->second : nullptr;
}

const BootRow* Transaction::boot(const std::string& boot) const {
  const auto found = boots_.find(boot);
  return found != boots_.end() ? &found->second : nullptr;
}

bool Transaction::came_back(const std::string& boot) const {
  const BootRow* const row = this->boot(boot);
  return boots_back_.contains(boot) || (row != nullptr && row->came_back);
}

Duration Transaction::held(const std::string& group) {
  const GroupRow& row = groups_[group];
  const Duration since = row.paused_since ? chain_rules::time_since(*row.paused_since, now_) : Duration::zero();
  return held_ + held_more_ + row.paused_total + since;
}

ChainTask* Transaction::claimed_by(const std::string& claim_id) {
  const auto found = claimed_.find(claim_id);
  return found != claimed_.end() ? task(found->second) : nullptr;
}

std::vector<std::string> Transaction::owned_by(const std::string& boot) const {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& [id, entry] : tasks_) {
    const bool is_open = entry.task.state == ChainState::kReady || entry.task.state == ChainState::kProcessing;
    if (is_open && entry.task.owner == boot) found.emplace_back(entry.task.sequence, id);
  }
  std::ranges::sort(found);
  std::vector<std::string> ids;
  for (auto& [sequence, id] : found) ids.push_back(std::move(id));
  return ids;
}

// --- what becomes of them

void Transaction::insert(ChainTask task, std::shared_ptr<const backend::PreparedTask> prepared,
                         chain_rules::Effects& effects) {
  only_reports_ = false;
  const std::string id = task.id();
  keep_existing({id, task.state, prepared->hash, task.request.group, task.request.idempotency_key});
  Entry& entry = tasks_[id];
  entry.task = std::move(task);
  entry.is_new = entry.is_changed = true;
  entry.prepared = std::move(prepared);
  new_order_.push_back(id);
  for (ChainEvent& each : effects.events) events_.push_back(std::move(each));
  if (entry.task.state == ChainState::kReady) {
    news_.add_ready(entry.task.request.group, chain_rules::time_until_due_for_owner(entry.task, now()));
  }
}

void Transaction::save(ChainTask& task, bool body, chain_rules::Effects& effects) {
  Entry& entry = tasks_.at(task.id());
  entry.is_changed = true;
  entry.has_new_body = entry.has_new_body || body;
  const bool was_free = entry.state_before == ChainState::kReady && entry.owner_before == task.owner;
  if (task.state == ChainState::kReady && !was_free) {
    news_.add_ready(task.request.group, chain_rules::time_until_due_for_owner(task, now()));
  }
  for (ChainEvent& each : effects.events) events_.push_back(std::move(each));
  for (AttemptRecord& each : effects.attempts) attempts_.emplace_back(task.sequence, std::move(each));
  if (effects.drops_dead_letter) {
    letters_.erase(task.id());
    letters_removed_.insert(task.id());
  }
  if (effects.dead_letter) put_letter(*std::move(effects.dead_letter));
  held_more_ += effects.held;
}

void Transaction::put_letter(DeadLetter letter) {
  std::string id = letter.task_id;
  letters_.insert_or_assign(std::move(id), std::move(letter));
}

void Transaction::put_boot(const NodeLease& node, Duration lease) {
  boots_new_.emplace_back(node, lease);
  boots_.insert_or_assign(node.boot, BootRow{.boot = node.boot, .lease = lease, .is_locked = true});
}

}  // namespace cohort::postgres
