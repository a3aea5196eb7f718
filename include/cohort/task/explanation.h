#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cohort/task/group_stats.h"

namespace cohort {

/// Why a task is where it is.
struct Explanation {
  Bound bound = Bound::kNothing;
  std::uint64_t ahead = 0;           ///< Tasks of its group that go before it.
  std::vector<std::string> holders;  ///< Who holds what it lacks: tasks of the group, or groups. At most 8.
  std::string text;                  ///< "group 'vip' runs 4 of 4; 12 ahead"
};

/// "group 'vip' runs 4 of 4; 12 ahead (held by t1, t2)"
[[nodiscard]] std::string to_string(const Explanation& why);
inline std::ostream& operator<<(std::ostream& out, const Explanation& why) { return out << to_string(why); }

}  // namespace cohort
