#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cohort/task/group_stats.h"

namespace cohort {

/// Says what a task does now and, if it waits, what it waits for.
struct Explanation {
  Bound bound = Bound::kNothing;
  std::uint64_t ahead = 0;           ///< How many tasks of its group go before it; at most 1,000 are counted.
  std::vector<std::string> holders;  ///< The tasks or groups that hold what the task needs. At most 8.
  std::string text;                  ///< "group 'vip' runs 4 of 4; 12 ahead"
};

/// "group 'vip' runs 4 of 4; 12 ahead (held by t1, t2)"
[[nodiscard]] std::string to_string(const Explanation& why);
inline std::ostream& operator<<(std::ostream& out, const Explanation& why) { return out << to_string(why); }

}  // namespace cohort
