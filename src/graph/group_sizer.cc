#include "graph/group_sizer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace cohort::internal {

GroupSizer::GroupSizer(const std::vector<GraphPlan::Group>& groups, std::uint32_t total)
    : groups_(groups), total_(total), demand_(groups.size(), 0) {
  double sum = 0;
  std::size_t known = 0;
  for (const GraphPlan::Group& group : groups_) {
    if (group.concurrency || group.demand <= 0) continue;
    sum += group.demand;
    ++known;
  }
  const double mean = known == 0 ? 1 : sum / static_cast<double>(known);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].concurrency) demand_[i] = groups_[i].demand > 0 ? groups_[i].demand : mean;
  }
  sizes_ = divided(demand_);
}

// One for each, then by largest remainder, so that the sum is the total where that is possible.
std::vector<std::uint32_t> GroupSizer::divided(const std::vector<double>& demand) const {
  std::vector<std::uint32_t> sizes(groups_.size(), 1);
  std::int64_t left = total_;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].concurrency) {
      sizes[i] = *groups_[i].concurrency;
      left -= sizes[i];
    } else {
      open.push_back(i);
    }
  }
  // A group whose part is below 1 gets 1, and the others divide the rest without it.
  std::vector<double> part(groups_.size(), 1);
  while (!open.empty()) {
    const double sum =
        std::accumulate(open.begin(), open.end(), 0.0, [&](double s, std::size_t i) { return s + demand[i]; });
    for (const std::size_t i : open) part[i] = static_cast<double>(std::max<std::int64_t>(left, 0)) * demand[i] / sum;
    const auto small = std::ranges::find_if(open, [&](std::size_t i) { return part[i] < 1; });
    if (small == open.end()) break;
    part[*small] = 1;
    --left;
    open.erase(small);
  }
  for (const std::size_t i : open) {
    sizes[i] = static_cast<std::uint32_t>(part[i]);
    left -= sizes[i];
  }
  std::ranges::stable_sort(open, [&](std::size_t a, std::size_t b) {
    return part[a] - std::floor(part[a]) > part[b] - std::floor(part[b]);
  });
  for (std::size_t i = 0; i < open.size() && left > 0; ++i, --left) ++sizes[open[i]];
  return sizes;
}

std::vector<SizeChange> GroupSizer::follow(const std::vector<Measured>& measured, Duration period, Time now) {
  std::vector<SizeChange> changes;
  if (period <= Duration::zero()) return changes;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].concurrency) continue;
    // Half of what is new: one odd period does not turn everything round. Never nothing: it may come back.
    const double busy = static_cast<double>(measured[i].busy.count()) / static_cast<double>(period.count());
    demand_[i] = std::max(0.5 * demand_[i] + 0.5 * busy, 0.01);
  }
  const std::vector<std::uint32_t> wanted = divided(demand_);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::uint32_t from = sizes_[i];
    const std::uint32_t gap = from > wanted[i] ? from - wanted[i] : wanted[i] - from;
    if (gap == 0 || std::uint64_t{gap} * 5 <= from) continue;
    const std::uint32_t step = std::min(gap, std::max(1U, from / 4));
    const std::uint32_t to = wanted[i] > from ? from + step : from - step;
    const double seconds = std::chrono::duration<double>(period).count();
    const double mean_ms = measured[i].ended == 0
                               ? 0
                               : std::chrono::duration<double, std::milli>(measured[i].busy).count() /
                                     static_cast<double>(measured[i].ended);
    char text[160];
    std::snprintf(text, sizeof(text), "%.2f busy on average (%.1f ms x %.1f/s); its part of %u is %u",
                  std::chrono::duration<double>(measured[i].busy).count() / seconds, mean_ms,
                  static_cast<double>(measured[i].ended) / seconds, total_, wanted[i]);
    changes.push_back({now, groups_[i].name, from, to, text});
    sizes_[i] = to;
  }
  return changes;
}

}  // namespace cohort::internal
