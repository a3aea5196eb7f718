#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_context.h"
#include "cohort/base/clock.h"

namespace cohort {

/// Follows each task to its end and tells what came of it: its outputs, or its error and the end of its log. The exit
/// code of the first that did not complete, or was not done `timeout` after the beginning.
[[nodiscard]] int wait_for_tasks(const CommandContext& context, ApiClient& client, const std::vector<std::string>& ids,
                                 std::optional<Duration> timeout);

}  // namespace cohort
