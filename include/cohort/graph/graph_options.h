#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cohort/base/clock.h"

namespace cohort {

/// The expected demand of a node type: its calls take `latency`, and there are `per_second` of them.
struct Demand {
  Duration latency{0};
  double per_second = 0;

  /// The expected number of calls at a time: `latency` x `per_second`.
  [[nodiscard]] double concurrency() const { return std::chrono::duration<double>(latency).count() * per_second; }
  friend bool operator==(const Demand&, const Demand&) = default;
};

/// A change of the concurrency of a group of nodes, with its reason.
struct SizeChange {
  Time at{};
  std::string group;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::string reason;  ///< For example "12.30 busy on average (41.0 ms x 300.0/s); its part of 40 is 16"
};

struct GraphOptions {
  std::string name = "graph";
  /// Time-out of a run. No node gets more time than is left of its run. Above 0.
  Duration timeout = std::chrono::seconds(5);
  /// Time-out of a node that has none of its own. Above 0.
  ///
  /// A node with a default and without a time-out of its own may end earlier, to leave time for the nodes that need it.
  /// It leaves them their measured duration (p95), but at most half of the time that is left of the run. It leaves half
  /// while nothing has been measured.
  Duration node_timeout = std::chrono::seconds(1);
  /// How many nodes of all types together run at a time. The graph divides this number among its groups by demand and
  /// sets each part as the group's max_concurrency in the executor. 0: eight per core.
  std::uint32_t concurrency = 0;
  /// How often the graph adapts its groups to the measured demand. 0: never. A shorter time than 1 s becomes 1 s.
  Duration resize_every{0};
  /// Called for each change of a group's concurrency, with no lock held.
  std::function<void(const SizeChange&)> on_resize{};
  std::uint64_t seed = 0;  ///< For the jitter of retries. 0: any.
};

struct RunOptions {
  std::optional<Time> deadline{};  ///< The run ends at the earlier of `deadline` and the graph's time-out.
};

}  // namespace cohort
