#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cohort/base/result.h"
#include "cohort/broker/broker.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// A task as people and other services write it:
///
///     {"id": "…", "group": "tenant", "session": "…", "file": "https://…", "payload": {…},
///      "steps": [{"plugin": "sha256", "parameters": {…}, "timeout": "30s",
///                     "retry": {"max_retries": 3, "backoff": "1s", "multiplier": 2, "max_backoff": "1m", "jitter":
///                     0.2}}],
///      "deadline": "1h" (or "deadline_at": "2026-11-16T06:00:00Z"), "priority": "high", "tags": ["…"], "start_at":
///      "2026-11-16T05:00:00Z", "idempotency_key": "…"}
///
/// Only group is needed. An unknown key, a wrong type or an impossible value: kInvalid, with the place.
[[nodiscard]] Result<NewTask> task_from_json(const nlohmann::json& json);
/// One step: the name of a plugin, or {"plugin": …, "parameters": …, "timeout": …, "retry": …}. `place` names it in
/// errors.
[[nodiscard]] Result<ChainStep> step_from_json(const nlohmann::json& json, const std::string& place);
[[nodiscard]] nlohmann::json to_json(const NewTask& task);
[[nodiscard]] nlohmann::json steps_to_json(const std::vector<ChainStep>& steps);
/// With its state: what an API shows.
[[nodiscard]] nlohmann::json to_json(const ChainTask& task);
[[nodiscard]] nlohmann::json to_json(const DeadLetter& letter);
[[nodiscard]] nlohmann::json to_json(const ChainEvent& event);
[[nodiscard]] nlohmann::json to_json(const AttemptRecord& attempt);

/// A message of the task topic: {"message_id": "…", "task": {…}} or {"message_id": "…", "task_id": "…"}, with optional
/// "deadline" (a time), "published_at" and "source_node". Without a message id its partition and offset are one. What
/// cannot be understood is given as `refused`.
[[nodiscard]] TakenIn taken_in(const InMessage& message);

}  // namespace cohort
