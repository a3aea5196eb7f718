#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/table.h"
#include "cli/text.h"

namespace cohort {

/// Completed, failed, cancelled, expired or poison: nothing more will happen to it.
[[nodiscard]] bool is_final(const nlohmann::json& task);
/// "2/3 thumbnail": the current step, counted from 1; "3/3" when all are done.
[[nodiscard]] std::string step_text(const nlohmann::json& task);

/// Tasks, one a line.
[[nodiscard]] Table task_table(const nlohmann::json& tasks, WallTime now);

/// What asks for a task to run again: `from_step` counted from 1, or 0 for the step that failed; `deadline` or "".
[[nodiscard]] nlohmann::json restart_body(std::uint32_t from_step, const std::string& deadline);

/// What of a task's log is shown; 0: all of it.
inline constexpr std::size_t kLogTail = 10;
[[nodiscard]] std::string log_text(const nlohmann::json& task, std::size_t last_lines);
/// What the steps have put out, indented; empty if there is nothing.
[[nodiscard]] std::string outputs_text(const nlohmann::json& task);
/// All of a task, for people.
[[nodiscard]] std::string task_text(const nlohmann::json& task, const nlohmann::json& attempts, WallTime now, int width,
                                    const Style& style);

}  // namespace cohort
