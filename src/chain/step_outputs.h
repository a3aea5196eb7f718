#pragma once

#include <string>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// The context of the task with the outputs of its current step merged in (shallow; the last wins). kInvalid: the
/// outputs are not an object, are nested too deep or make the context too big.
[[nodiscard]] Result<std::string> merged_context(const ChainTask& task, const PluginResult& result);

}  // namespace cohort
