#include "chain/run_table.h"

#include <utility>

#include "cohort/base/assert.h"

namespace cohort {

void RunTable::add(const RunRef& run) {
  MutexLock lock(mutex_);
  runs_[run->task.id()] = run;
  const auto kept = kept_.find(run->task.id());
  if (kept == kept_.end()) return;
  run->file = std::move(kept->second.file);
  kept_.erase(kept);
}

bool RunTable::remove(const RunRef& run) {
  MutexLock lock(mutex_);
  const auto found = runs_.find(run->task.id());
  if (found != runs_.end() && found->second == run) runs_.erase(found);
  if (!run->was_abandoned) return false;
  const auto paused = paused_plugins_.find(run->task.request.group);
  COHORT_ASSERT(paused != paused_plugins_.end(), "a run that was abandoned has paused its plugin");
  const auto place = paused->second.find(run->task.current_step()->plugin);
  COHORT_ASSERT(place != paused->second.end(), "a run that was abandoned has paused its plugin");
  paused->second.erase(place);
  if (paused->second.empty()) paused_plugins_.erase(paused);
  return true;
}

bool RunTable::has(const std::string& task_id) const {
  MutexLock lock(mutex_);
  return runs_.contains(task_id);
}

auto RunTable::all() const -> std::vector<RunRef> {
  std::vector<RunRef> runs;
  MutexLock lock(mutex_);
  for (const auto& [id, run] : runs_) runs.push_back(run);
  return runs;
}

void RunTable::stop(const std::string& task_id) {
  RunRef run;
  {
    MutexLock lock(mutex_);
    const auto found = runs_.find(task_id);
    if (found != runs_.end()) run = found->second;
  }
  if (run) run->request_stop();
}

void RunTable::stop_all() {
  for (const RunRef& run : all()) run->request_stop();
}

void RunTable::keep(const std::string& task_id, LocalFile file, Time until) {
  MutexLock lock(mutex_);
  kept_[task_id] = {std::move(file), until};
}

void RunTable::drop_kept(Time now) {
  std::vector<LocalFile> dropped;
  MutexLock lock(mutex_);
  for (auto each = kept_.begin(); each != kept_.end();) {
    if (each->second.until > now) {
      ++each;
      continue;
    }
    dropped.push_back(std::move(each->second.file));
    each = kept_.erase(each);
  }
  lock.unlock();
  dropped.clear();
  lock.lock();
}

bool RunTable::abandon(const RunRef& run, Time time) {
  MutexLock lock(mutex_);
  if (!run->abandon_after(time)) return false;
  paused_plugins_[run->task.request.group].insert(run->task.current_step()->plugin);
  return true;
}

std::vector<std::string> RunTable::paused_plugins(const std::string& group) const {
  MutexLock lock(mutex_);
  const auto paused = paused_plugins_.find(group);
  if (paused == paused_plugins_.end()) return {};
  return {paused->second.begin(), paused->second.end()};
}

std::uint32_t RunTable::running() const {
  MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(runs_.size());
}

std::uint32_t RunTable::kept() const {
  MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(kept_.size());
}

}  // namespace cohort
