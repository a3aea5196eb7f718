#include "graph/graph_sizes.h"

#include <algorithm>
#include <thread>

namespace cohort::internal {
namespace {

constexpr std::size_t kChangesKept = 64;

std::uint32_t total_concurrency(const GraphOptions& options) {
  return options.concurrency != 0 ? options.concurrency : 8 * std::max(1U, std::thread::hardware_concurrency());
}

Duration at_least_a_second(Duration every) {
  return every > Duration::zero() ? std::max<Duration>(every, std::chrono::seconds(1)) : Duration::zero();
}

}  // namespace

GraphSizes::GraphSizes(const GraphPlan& plan, Executor& executor, const GraphOptions& options)
    : plan_(plan),
      executor_(executor),
      options_(options),
      every_(at_least_a_second(options.resize_every)),
      sizer_(plan.groups, total_concurrency(options)),
      measured_(plan.groups.size()),
      changed_at_(executor.clock().now()) {
  for (std::size_t i = 0; i < plan.groups.size(); ++i) set_size(plan.groups[i].name, sizer_.sizes()[i]);
}

void GraphSizes::set_size(const std::string& group, std::uint32_t size) {
  static_cast<void>(executor_.set_limits(group, {.max_concurrency = size}));
}

void GraphSizes::count(const RunState& run, Time now) {
  if (every_ == Duration::zero()) return;
  for (const SizeChange& change : follow(run, now)) {
    const auto group = executor_.group_stats(change.group);
    if (!group || !group->paused) set_size(change.group, change.to);  // A pause is not ours to end.
    if (!options_.on_resize) continue;
    try {
      options_.on_resize(change);
    } catch (...) {
      // A listener's trouble is its own.
    }
  }
}

std::vector<SizeChange> GraphSizes::follow(const RunState& run, Time now) {
  MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < plan_.nodes.size(); ++i) {
    const NodeSlot& slot = run.slot(i);
    const std::uint32_t attempts = slot.attempt_count.load(std::memory_order_relaxed);
    if (attempts == 0) continue;
    GroupSizer::Measured& group = measured_[plan_.nodes[i].group];
    group.ended += attempts;
    group.busy += Duration(slot.busy.load(std::memory_order_relaxed));
  }
  if (now < saturating_add(changed_at_, every_)) return {};
  std::vector<SizeChange> changes = sizer_.follow(measured_, now - changed_at_, now);
  measured_.assign(measured_.size(), {});
  changed_at_ = now;
  for (const SizeChange& change : changes) {
    changes_.push_back(change);
    if (changes_.size() > kChangesKept) changes_.pop_front();
  }
  return changes;
}

std::vector<SizeChange> GraphSizes::changes() const {
  MutexLock lock(mutex_);
  return {changes_.begin(), changes_.end()};
}

}  // namespace cohort::internal
