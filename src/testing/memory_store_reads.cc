#include <algorithm>
#include <utility>

#include "cohort/testing/memory_store.h"
#include "store/chain_rules.h"
#include "store/watchers.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kLate(500);  // See PlantedBugs::shows_events_late.

Error no_such_task(const std::string& id) { return {ErrorCode::kNotFound, "there is no task '" + id + "'"}; }

}  // namespace

void MemoryStore::groups_with_work(Completion<std::vector<GroupWork>> done) {
  std::vector<GroupWork> work;
  {
    MutexLock lock(mutex_);
    const StoreTime now = this->now();
    for (const auto& [name, group] : groups_) {
      if (group.ready.empty() || group.paused_since) continue;
      std::optional<Duration> next = Duration::max();
      for (const auto& [order, id] : group.ready) {
        const ChainTask& task = tasks_.at(id);
        const Duration in = chain_rules::time_until_due(task, now);
        if (in == Duration::zero()) next.reset();
        if (!next) break;
        next = std::min(*next, in);
      }
      work.push_back({name, next});
    }
  }
  done(std::move(work));
}

void MemoryStore::claims_of(std::string boot, Completion<std::vector<HeldClaim>> done) {
  std::vector<HeldClaim> found;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, task] : tasks_) {
      if (task.owner != boot || task.state != ChainState::kProcessing) continue;
      found.push_back({id, task.epoch, task.claim_id, task.writes, task.cancel_requested});
    }
  }
  done(std::move(found));
}

void MemoryStore::controls(std::string after, std::uint32_t limit, Completion<std::vector<GroupControl>> done) {
  std::vector<GroupControl> found;
  {
    MutexLock lock(mutex_);
    for (auto each = groups_.upper_bound(after); each != groups_.end() && found.size() < limit; ++each) {
      const Group& group = each->second;
      const bool is_paused = group.paused_since.has_value();
      if (is_paused || !group.limits.empty()) found.push_back({each->first, is_paused, group.limits, group.version});
    }
  }
  done(std::move(found));
}

void MemoryStore::get(std::string task_id, Completion<ChainTask> done) {
  Result<ChainTask> answer = no_such_task(task_id);
  {
    MutexLock lock(mutex_);
    if (const ChainTask* task = find(task_id)) answer = *task;
  }
  done(std::move(answer));
}

void MemoryStore::attempts(std::string task_id, Completion<std::vector<AttemptRecord>> done) {
  Result<std::vector<AttemptRecord>> answer = no_such_task(task_id);
  {
    MutexLock lock(mutex_);
    if (find(task_id) != nullptr) answer = attempts_[task_id];
  }
  done(std::move(answer));
}

void MemoryStore::list(TaskFilter filter, Completion<TaskPage> done) {
  std::vector<ChainTask> found;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, task] : tasks_) {
      if (!filter.id_prefix.empty() && !id.starts_with(filter.id_prefix)) continue;
      if (!filter.group.empty() && task.request.group != filter.group) continue;
      if (filter.state && task.state != *filter.state) continue;
      if (!filter.tag.empty() && std::ranges::count(task.request.tags, filter.tag) == 0) continue;
      if (filter.before != 0 && task.sequence >= filter.before) continue;
      ChainTask& shown = found.emplace_back(task);
      shown.request.payload.clear();
      shown.context.clear();
      shown.log.clear();
      for (ChainStep& each : shown.request.steps) each.parameters.clear();
      shown.request.parameters = "{}";
    }
  }
  const bool by_id = !filter.id_prefix.empty();
  if (!by_id) std::ranges::sort(found, std::greater<>(), &ChainTask::sequence);
  TaskPage page;
  if (found.size() > filter.limit) {
    found.resize(filter.limit);
    if (!by_id) page.next = found.back().sequence;
  }
  page.tasks = std::move(found);
  done(std::move(page));
}

void MemoryStore::dead_letters(std::string after_task, std::uint32_t limit, Completion<std::vector<DeadLetter>> done) {
  std::vector<DeadLetter> found;
  {
    MutexLock lock(mutex_);
    for (auto each = letters_.upper_bound(after_task); each != letters_.end() && found.size() < limit; ++each) {
      found.push_back(each->second);
    }
  }
  done(std::move(found));
}

void MemoryStore::dead_letter(std::string task_id, Completion<DeadLetter> done) {
  Result<DeadLetter> answer = Error{ErrorCode::kNotFound, "task '" + task_id + "' has no dead letter"};
  {
    MutexLock lock(mutex_);
    const auto found = letters_.find(task_id);
    if (found != letters_.end()) answer = found->second;
  }
  done(std::move(answer));
}

void MemoryStore::events(std::uint64_t after, std::uint32_t limit, Completion<std::vector<ChainEvent>> done) {
  std::vector<ChainEvent> found;
  {
    MutexLock lock(mutex_);
    auto each = std::ranges::upper_bound(events_, after, {}, &ChainEvent::sequence);
    constexpr std::uint64_t kEvery = 7;
    for (; each != events_.end() && found.size() < limit; ++each) {
      const bool is_late = bugs_.shows_events_late && each->sequence % kEvery == 0 && clock_.now() - each->at < kLate;
      if (!is_late) found.push_back(*each);
    }
  }
  done(std::move(found));
}

std::map<std::string, GroupCounts> MemoryStore::count_groups() {
  std::map<std::string, GroupCounts> counts;
  for (const auto& [id, task] : tasks_) {
    if (is_final(task.state)) continue;
    GroupCounts& count = counts[task.request.group];
    ++(task.state == ChainState::kPending ? count.pending
       : task.state == ChainState::kReady ? count.ready
                                          : count.processing);
  }
  for (const auto& [name, group] : groups_) {
    if (group.paused_since) counts[name].paused = true;
  }
  for (auto& [name, count] : counts) count.group = name;
  return counts;
}

void MemoryStore::group_counts(std::string after, std::uint32_t limit, Completion<std::vector<GroupCounts>> done) {
  std::vector<GroupCounts> found;
  {
    MutexLock lock(mutex_);
    const std::map<std::string, GroupCounts> counts = count_groups();
    for (auto each = counts.upper_bound(after); each != counts.end() && found.size() < limit; ++each) {
      found.push_back(each->second);
    }
  }
  done(std::move(found));
}

void MemoryStore::group_count(std::string group, Completion<GroupCounts> done) {
  GroupCounts found{.group = group};
  {
    MutexLock lock(mutex_);
    const std::map<std::string, GroupCounts> counts = count_groups();
    if (const auto at = counts.find(group); at != counts.end()) found = at->second;
  }
  done(std::move(found));
}

void MemoryStore::stats(Completion<StoreStats> done) {
  StoreStats stats;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, task] : tasks_) ++stats.tasks[static_cast<std::size_t>(task.state)];
    stats.dead_letters = letters_.size();
    stats.events = events_.size();
    stats.last_event = event_sequence_;
  }
  done(stats);
}

void MemoryStore::cursor(std::string name, Completion<std::uint64_t> done) {
  std::uint64_t value = 0;
  {
    MutexLock lock(mutex_);
    const auto found = cursors_.find(name);
    if (found != cursors_.end()) value = found->second;
  }
  done(value);
}

// --- to keep

void MemoryStore::set_limits(std::string group, std::string limits, Completion<void> done) {
  {
    MutexLock lock(mutex_);
    Group& of = groups_[group];
    of.limits = std::move(limits);
    ++of.version;
    news_->add_control();
  }
  tell_news();
  done({});
}

void MemoryStore::discard_dead_letter(std::string task_id, Completion<void> done) {
  Result<void> answer;
  {
    MutexLock lock(mutex_);
    if (letters_.erase(task_id) == 0) answer = Error{ErrorCode::kNotFound, "task '" + task_id + "' has no dead letter"};
  }
  done(std::move(answer));
}

void MemoryStore::set_cursor(std::string name, std::uint64_t value, Completion<void> done) {
  {
    MutexLock lock(mutex_);
    cursors_[name] = value;
  }
  done({});
}

std::vector<ChainTask> MemoryStore::all() const {
  MutexLock lock(mutex_);
  std::vector<ChainTask> rows;
  for (const auto& [id, task] : tasks_) rows.push_back(task);
  return rows;
}

}  // namespace cohort
