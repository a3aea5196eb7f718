#pragma once

#include <nlohmann/json.hpp>

#include "admin/node_control.h"
#include "cohort/base/wall_clock.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// Why a task is where it is, in sentences: {"task", "state", "text", "reasons"}.
[[nodiscard]] nlohmann::json explain_task(const ChainTask& task, NodeControl& control, bool paused, WallTime now);

}  // namespace cohort
