#include "chain/wait_forecast.h"

#include <algorithm>
#include <cmath>

namespace cohort {
namespace {

constexpr double kFadeSeconds = 600;
constexpr double kTooEarlySeconds = 10;
constexpr double kLongestSeconds = 365.0 * 24 * 3600;
constexpr std::size_t kMostGroups = 10'000;

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void WaitForecast::note_claim(const std::string& group, bool has_task, bool more, Time now) {
  MutexLock lock(mutex_);
  auto found = groups_.find(group);
  if (!more) {
    if (found != groups_.end()) groups_.erase(found);
    return;
  }
  if (found == groups_.end()) {
    if (groups_.size() >= kMostGroups) return;
    groups_.emplace(group, Group{.looked = now});  // The starts are counted from here on, without this one.
    return;
  }
  if (has_task) ++found->second.started_since;
}

void WaitForecast::note_waiting(const std::string& group, Time now) {
  MutexLock lock(mutex_);
  if (groups_.size() < kMostGroups) groups_.try_emplace(group, Group{.looked = now});
}

void WaitForecast::forecast(Group& group, std::uint64_t ready, Time now) {
  const double passed = seconds_of(now - group.looked);
  const double kept = std::exp(-passed / kFadeSeconds);
  group.started = group.started * kept + static_cast<double>(group.started_since);
  group.seconds = group.seconds * kept + passed;
  group.started_since = 0;
  group.looked = now;
  group.wait.reset();
  if (group.seconds < kTooEarlySeconds) return;
  // A group of long tasks may have started none: then it is at least so slow as if it had started one.
  const double wait = static_cast<double>(ready) * group.seconds / std::max(group.started, 1.0);
  group.wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(wait, kLongestSeconds)));
}

std::vector<WaitForecast::Forecast> WaitForecast::note_counts(const std::vector<GroupCounts>& counts, Duration limit,
                                                              Time now) {
  std::vector<Forecast> too_long;
  MutexLock lock(mutex_);
  for (const GroupCounts& each : counts) {
    const auto found = groups_.find(each.group);
    if (found == groups_.end()) continue;
    Group& group = found->second;
    if (each.ready == 0) {
      groups_.erase(found);
      continue;
    }
    forecast(group, each.ready, now);
    if (each.paused) group.wait.reset();  // A pause extends the deadlines too.
    const Duration wait = group.wait.value_or(Duration::zero());
    if (wait > limit && !group.is_told) too_long.push_back({each.group, wait});
    group.is_told = wait > limit || (group.is_told && wait > limit / 2);
  }
  return too_long;
}

std::optional<Duration> WaitForecast::wait(const std::string& group) const {
  MutexLock lock(mutex_);
  const auto found = groups_.find(group);
  return found == groups_.end() ? std::nullopt : found->second.wait;
}

}  // namespace cohort
