#pragma once

#include <cstdint>
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

}  // namespace cohort
