#pragma once

#include <cstddef>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// Checks that the plugin of a step is there. kInvalid, with the step's number and name.
[[nodiscard]] Result<void> check_plugin(const PluginRegistry& plugins, const ChainStep& step, std::size_t index);
/// Also asks the plugin whether it can use the parameters.
[[nodiscard]] Result<void> check_step(const PluginRegistry& plugins, const ChainStep& step, std::size_t index);

}  // namespace cohort
