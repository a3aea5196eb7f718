#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cohort/base/clock.h"

namespace cohort {

/// How much of its upstream a node type keeps busy: `latency` x `per_second` calls at a time.
struct Demand {
  Duration latency{0};
  double per_second = 0;

  [[nodiscard]] double concurrency() const { return std::chrono::duration<double>(latency).count() * per_second; }
  friend bool operator==(const Demand&, const Demand&) = default;
};

/// That a group of nodes was given another concurrency, and why.
struct SizeChange {
  Time at{};
  std::string group;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::string reason;  ///< "12.30 busy on average (41.0 ms x 300.0/s); its part of 40 is 16"
};

struct GraphOptions {
  std::string name = "graph";
  /// Of a run as a whole; no node is given more than what is left of it. Above 0.
  Duration timeout = std::chrono::seconds(5);
  /// Of a node that has none of its own. Above 0. A node with a default ends earlier if those that need it would have
  /// no time left: for them it leaves what they have been seen to take (p95), or as long as that is not known half of
  /// its time, and never more than half.
  Duration node_timeout = std::chrono::seconds(1);
  /// How many nodes of all types together run at a time: divided among the groups by demand, and set as their
  /// max_concurrency in the executor. 0: eight a core.
  std::uint32_t concurrency = 0;
  /// Whether groups follow measured demand, and how often they are looked at; 0: never. At least 1 s otherwise.
  Duration resize_every{0};
  /// Told of each change, with no lock held.
  std::function<void(const SizeChange&)> on_resize{};
  std::uint64_t seed = 0;  ///< For back-off; 0: any.
};

struct RunOptions {
  std::optional<Time> deadline{};  ///< Where it comes before the graph's time-out.
};

}  // namespace cohort
