#include "cohort/task/group_stats.h"

#include <numeric>

#include "cohort/task/explanation.h"

namespace cohort {

std::string to_string(const Explanation& why) {
  std::string holders;
  for (const std::string& each : why.holders) holders += (holders.empty() ? "" : ", ") + each;
  return holders.empty() ? why.text : why.text + " (held by " + holders + ")";
}

std::string_view to_string(LimitSource source) {
  switch (source) {
    case LimitSource::kBuiltIn: return "built in";
    case LimitSource::kDefaults: return "defaults";
    case LimitSource::kResolver: return "resolver";
    case LimitSource::kGroups: return "groups";
    case LimitSource::kChanged: return "set_limits";
  }
  return "unknown";
}

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::kNothing: return "nothing";
    case Bound::kWorkers: return "workers";
    case Bound::kGlobal: return "global_max_in_flight";
    case Bound::kInFlight: return "max_in_flight";
    case Bound::kConcurrency: return "max_concurrency";
    case Bound::kRate: return "rate";
    case Bound::kPaused: return "pause";
    case Bound::kOverrunning: return "max_overrunning";
    case Bound::kParked: return "max_parked";
    case Bound::kDependency: return "dependency";
    case Bound::kDoor: return "max_waiting";
  }
  return "unknown";
}

std::uint64_t TaskCounters::settled_total() const { return std::accumulate(settled.begin(), settled.end(), 0ULL); }

TaskCounters& TaskCounters::operator+=(const TaskCounters& other) {
  submitted += other.submitted;
  started += other.started;
  for (std::size_t i = 0; i < settled.size(); ++i) settled[i] += other.settled[i];
  queue_time += other.queue_time;
  thread_time += other.thread_time;
  return *this;
}

}  // namespace cohort
