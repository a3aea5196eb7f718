#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cohort/base/result.h"
#include "cohort/broker/broker.h"
#include "cohort/store/task_store.h"

namespace cohort {

/// Reads a task in the JSON format of the API and of messages:
///
///     {"id": "…", "group": "tenant", "session": "…", "file": "https://…", "payload": {…},
///      "steps": [{"plugin": "sha256", "parameters": {…}, "timeout": "30s",
///                     "retry": {"max_retries": 3, "backoff": "1s", "multiplier": 2, "max_backoff": "1m", "jitter":
///                     0.2}}],
///      "deadline": "1h" (or "deadline_at": "2026-11-16T06:00:00Z"), "priority": "high", "tags": ["…"], "start_at":
///      "2026-11-16T05:00:00Z", "idempotency_key": "…"}
///
/// Only "group" is required. kInvalid: an unknown key, a wrong type or an impossible value; the message has the place.
[[nodiscard]] Result<NewTask> task_from_json(const nlohmann::json& json);
/// One step: the name of a plugin, or {"plugin": …, "parameters": …, "timeout": …, "retry": …}. `place` names it in
/// errors.
[[nodiscard]] Result<ChainStep> step_from_json(const nlohmann::json& json, const std::string& place);
[[nodiscard]] nlohmann::json to_json(const NewTask& task);
[[nodiscard]] nlohmann::json steps_to_json(const std::vector<ChainStep>& steps);
/// The JSON that the API shows for a task: request and state.
[[nodiscard]] nlohmann::json to_json(const ChainTask& task);
[[nodiscard]] nlohmann::json to_json(const DeadLetter& letter);
[[nodiscard]] nlohmann::json to_json(const ChainEvent& event);
[[nodiscard]] nlohmann::json to_json(const AttemptRecord& attempt);

/// A message of the task topic: {"message_id": "…", "task": {…}} or {"message_id": "…", "task_id": "…"}, with optional
/// "deadline" (a time), "published_at" and "source_node". A message without an id gets one made of partition and
/// offset. A message that cannot be understood is given as TakenIn::refused.
[[nodiscard]] TakenIn taken_in(const InMessage& message);

}  // namespace cohort
