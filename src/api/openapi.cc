#include "api/openapi.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/routes.h"
#include "cohort/base/version.h"

namespace cohort {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kSchemas = R"json({
  "State": {"type": "string", "enum": ["pending", "ready", "processing", "completed", "failed", "cancelled", "expired", "poison"]},
  "Length": {"type": "string", "pattern": "^[1-9][0-9]{0,6}(ms|us|ns|s|m)$|^[1-9][0-9]{0,5}h$|^[1-9][0-9]{0,4}d$|^[1-9][0-9]{0,3}h[1-9][0-9]{0,3}m$|^[1-9][0-9]{0,3}[.][0-9]{1,6}s$",
    "description": "A length of time above 0: 1h30m, 5m, 2.5s, 500ms, 7d", "examples": ["30s"]},
  "Delay": {"type": "string", "pattern": "^[0-9]{1,7}(ms|us|ns|s|m)$|^[0-9]{1,6}h$|^[0-9]{1,5}d$|^[1-9][0-9]{0,3}h[1-9][0-9]{0,3}m$|^[0-9]{1,4}[.][0-9]{1,6}s$",
    "description": "A length of time: 0s, 500ms, 5m", "examples": ["1s"]},
  "Retry": {"type": "object", "additionalProperties": false, "properties": {
    "max_retries": {"type": "integer", "minimum": 0, "maximum": 1000000}, "backoff": {"$ref": "#/components/schemas/Delay"},
    "multiplier": {"type": "number", "minimum": 1, "maximum": 1000},
    "max_backoff": {"$ref": "#/components/schemas/Delay"}, "jitter": {"type": "number", "minimum": 0, "maximum": 1}}},
  "NewStep": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "object", "required": ["plugin"], "additionalProperties": false, "properties": {
    "plugin": {"type": "string", "minLength": 1}, "parameters": {"type": "object"}, "timeout": {"$ref": "#/components/schemas/Length"},
    "retry": {"$ref": "#/components/schemas/Retry"}}}], "description": "A plugin with parameters, or only its name."},
  "NewTask": {"type": "object", "required": ["group"], "additionalProperties": false, "properties": {
    "id": {"type": "string", "maxLength": 128, "not": {"pattern": "^@[0-9]+$"}, "description": "Made if it is empty or not given. @ and a number name a task by its sequence number."}, "group": {"type": "string", "minLength": 1, "maxLength": 1024},
    "session": {"type": "string", "maxLength": 256},
    "file": {"type": "string", "maxLength": 4096, "description": "file:, http: or https:"}, "payload": {"description": "Any JSON."},
    "steps": {"type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/NewStep"}},
    "deadline": {"$ref": "#/components/schemas/Length"}, "deadline_at": {"type": "string", "format": "date-time", "description": "Instead of deadline."},
    "priority": {"type": "string", "enum": ["high", "normal", "low"]},
    "tags": {"type": "array", "maxItems": 32, "items": {"type": "string", "minLength": 1, "maxLength": 128}},
    "start_at": {"type": "string", "format": "date-time"},
    "idempotency_key": {"type": "string", "maxLength": 256}, "pending": {"type": "boolean"}},
    "not": {"required": ["deadline", "deadline_at"]}},
  "NewTasks": {"anyOf": [{"$ref": "#/components/schemas/NewTask"}, {"type": "object", "required": ["tasks"], "additionalProperties": false, "properties": {
    "tasks": {"type": "array", "maxItems": 1000, "description": "Each for itself: one that is refused leaves the others alone.", "items": {}}}}]},
  "SubmittedTask": {"type": "object", "required": ["id", "state", "existed"], "additionalProperties": false, "properties": {"id": {"type": "string"},
    "state": {"$ref": "#/components/schemas/State"}, "existed": {"type": "boolean"}}},
  "Refused": {"type": "object", "required": ["error"], "additionalProperties": false, "properties": {"error": {"$ref": "#/components/schemas/Problem"}}},
  "Submitted": {"oneOf": [{"$ref": "#/components/schemas/SubmittedTask"}, {"type": "object", "required": ["results"], "additionalProperties": false, "properties": {
    "results": {"type": "array", "items": {"oneOf": [{"$ref": "#/components/schemas/SubmittedTask"}, {"$ref": "#/components/schemas/Refused"}]}}}}]},
  "Step": {"type": "object", "required": ["plugin"], "properties": {"plugin": {"type": "string"}, "parameters": {"type": "object"},
    "timeout": {"type": "string"}, "retry": {"type": "object"}}},
  "Artifact": {"type": "object", "required": ["step", "name", "path", "bytes"], "properties": {"step": {"type": "integer"}, "name": {"type": "string"},
    "path": {"type": "string"}, "bytes": {"type": "integer"}}},
  "Task": {"type": "object", "required": ["id", "group", "state", "sequence", "steps_done", "attempt", "steps", "created_at", "deadline_at"],
    "properties": {"id": {"type": "string"}, "group": {"type": "string"},
    "state": {"$ref": "#/components/schemas/State"}, "sequence": {"type": "integer"},
    "step": {"type": "integer", "minimum": 1, "description": "The current step, counted from 1; missing when all are done."},
    "steps_done": {"type": "integer", "description": "How many steps have their checkpoint."}, "attempt": {"type": "integer"},
    "progress": {"type": "number"}, "progress_note": {"type": "string"}, "error": {"type": "string"}, "context": {"type": "object"}, "payload": {},
    "created_at": {"type": "string", "format": "date-time"}, "started_at": {"type": "string", "format": "date-time"},
    "ended_at": {"type": "string", "format": "date-time"}, "due_at": {"type": "string", "format": "date-time"}, "deadline_at": {"type": "string"},
    "ran": {"type": "string"}, "owner": {"type": "string"}, "cancel_requested": {"type": "boolean"},
    "artifacts": {"type": "array", "items": {"$ref": "#/components/schemas/Artifact"}},
    "steps": {"type": "array", "items": {"$ref": "#/components/schemas/Step"}}, "log": {"type": "array", "items": {"type": "string"}}}},
  "TaskPage": {"type": "object", "required": ["tasks"], "properties": {"tasks": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}}, "cursor": {"type": "string"}}},
  "Attempt": {"type": "object", "required": ["step", "attempt", "plugin", "node", "began_at", "outcome"], "properties": {"step": {"type": "integer"},
    "attempt": {"type": "integer"}, "plugin": {"type": "string"}, "node": {"type": "string"}, "began_at": {"type": "string", "format": "date-time"},
    "ended_at": {"type": "string", "format": "date-time"}, "outcome": {"type": "string", "enum": ["running", "succeeded", "skipped", "retried", "failed",
    "interrupted", "overran", "crashed", "cancelled", "expired", "poison"]}, "error": {"type": "string"}, "log": {"type": "array", "items": {"type": "string"}}}},
  "Attempts": {"type": "object", "required": ["task", "attempts"], "properties": {"task": {"type": "string"},
    "attempts": {"type": "array", "items": {"$ref": "#/components/schemas/Attempt"}}}},
  "Reason": {"type": "object", "additionalProperties": false, "properties": {"reason": {"type": "string", "maxLength": 1000}}},
  "Cancelled": {"type": "object", "required": ["state", "cancel_requested"], "properties": {"state": {"$ref": "#/components/schemas/State"}, "cancel_requested": {"type": "boolean"}}},
  "Replay": {"type": "object", "additionalProperties": false, "properties": {"from_step": {"type": "integer", "minimum": 1, "maximum": 100}, "deadline": {"$ref": "#/components/schemas/Length"}}},
  "Explanation": {"type": "object", "required": ["task", "state", "text", "reasons"], "properties": {"task": {"type": "string"}, "state": {"$ref": "#/components/schemas/State"}, "text": {"type": "string"},
    "reasons": {"type": "array", "items": {"type": "string"}}}},
  "DeadLetter": {"type": "object", "required": ["task_id", "group", "state", "reason", "step", "attempts", "failed_at"],
    "properties": {"task_id": {"type": "string"}, "group": {"type": "string"}, "state": {"$ref": "#/components/schemas/State"},
    "reason": {"type": "string"}, "plugin": {"type": "string"}, "step": {"type": "integer"}, "attempts": {"type": "integer"},
    "failed_at": {"type": "string", "format": "date-time"}, "log": {"type": "array", "items": {"type": "string"}},
    "original": {"type": "string", "description": "The message or row that could not be read. Not in lists."}}},
  "DeadLetterPage": {"type": "object", "required": ["dead_letters"], "properties": {"dead_letters": {"type": "array", "items": {"$ref": "#/components/schemas/DeadLetter"}}, "cursor": {"type": "string"}}},
  "ReplayFilter": {"type": "object", "additionalProperties": false, "properties": {"group": {"type": "string", "maxLength": 1024}, "state": {"type": "string", "enum": ["failed", "expired", "poison"]},
    "plugin": {"type": "string", "maxLength": 256}, "limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "cursor": {"type": "string", "maxLength": 128},
    "deadline": {"$ref": "#/components/schemas/Length"}, "dry_run": {"type": "boolean"}}},
  "Replayed": {"type": "object", "required": ["matched", "replayed", "dry_run", "tasks", "failed"], "properties": {"matched": {"type": "integer"}, "replayed": {"type": "integer"}, "dry_run": {"type": "boolean"},
    "tasks": {"type": "array", "items": {"type": "string"}}, "failed": {"type": "array", "items": {"type": "object"}}, "cursor": {"type": "string"}}},
  "Group": {"type": "object", "required": ["group", "paused", "pending", "ready", "processing", "running", "max_concurrency", "weight"],
    "properties": {"group": {"type": "string"}, "paused": {"type": "boolean"}, "pending": {"type": "integer"},
    "ready": {"type": "integer"}, "processing": {"type": "integer"}, "running": {"type": "integer"}, "max_concurrency": {"type": "integer"},
    "max_in_flight": {"type": "integer"}, "weight": {"type": "number"}}},
  "GroupList": {"type": "object", "required": ["groups"], "properties": {"groups": {"type": "array", "items": {"$ref": "#/components/schemas/Group"}}, "cursor": {"type": "string"}}},
  "Resize": {"type": "object", "additionalProperties": false, "minProperties": 1, "properties": {"max_concurrency": {"type": "integer", "minimum": 1, "maximum": 1000000},
    "max_in_flight": {"type": "integer", "minimum": 1, "maximum": 1000000}, "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000000}}},
  "Node": {"type": "object", "required": ["node", "version", "boot", "state", "ready", "status", "tasks", "dead_letters", "damaged_rows"],
    "properties": {"node": {"type": "string"}, "version": {"type": "string"}, "boot": {"type": "string"}, "state": {"type": "string"},
    "ready": {"type": "boolean"}, "status": {"type": "string"}, "problem": {"type": "string", "description": "What is wrong, and what to do."},
    "uptime_s": {"type": "number"}, "plugins": {"type": "array", "items": {"type": "string"}}, "tasks": {"type": "object"}, "dead_letters": {"type": "integer"},
    "damaged_rows": {"type": "integer"}}},
  "Health": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}, "problem": {"type": "string"}}},
  "OpenApi": {"type": "object"},
  "EventStream": {"type": "string", "description": "id: SEQUENCE, event: KIND, data: {sequence, at, kind, task_id, group, step, detail}; or event: gap, data: {from, to}"},
  "Problem": {"type": "object", "required": ["type", "title", "status", "code", "detail"], "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"}, "code": {"type": "string"}, "detail": {"type": "string"}}}
})json";

json reference(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }

json content(std::string_view schema) {
  const char* type = schema == "EventStream" ? "text/event-stream" : "application/json";
  return {{type, {{"schema", reference(schema)}}}};
}

json parameters_of(const ApiRoute& route) {
  json parameters = json::array();
  for (std::size_t at = route.path.find('{'); at != std::string_view::npos; at = route.path.find('{', at + 1)) {
    const std::string name(route.path.substr(at + 1, route.path.find('}', at) - at - 1));
    const int length = name == "group" ? 1024 : 128;
    parameters.push_back({{"name", name},
                          {"in", "path"},
                          {"required", true},
                          {"schema", {{"type", "string"}, {"minLength", 1}, {"maxLength", length}}}});
  }
  for (const QueryParameter& each : route.query) {
    parameters.push_back(
        {{"name", each.name}, {"in", "query"}, {"description", each.meaning}, {"schema", json::parse(each.schema)}});
  }
  return parameters;
}

json operation_of(const ApiRoute& route) {
  json operation = {{"operationId", route.operation}, {"summary", route.summary}};
  if (json parameters = parameters_of(route); !parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.body.empty()) {
    const bool is_required = route.body == "NewTasks" || route.body == "Resize";
    operation["requestBody"] = {{"required", is_required}, {"content", content(route.body)}};
  }
  json done = {{"description", "Done."}};
  if (!route.answer.empty()) done["content"] = content(route.answer);
  for (const int status : route.statuses) operation["responses"][std::to_string(status)] = done;
  operation["responses"]["default"] = {
      {"description",
       "Refused or failed. 400: the request is malformed. 422: it is well-formed, and this node cannot do it."},
      {"content", {{"application/problem+json", {{"schema", reference("Problem")}}}}}};
  return operation;
}

}  // namespace

std::string openapi_document() {
  json document = {{"openapi", "3.1.0"},
                   {"info",
                    {{"title", "Cohort node"},
                     {"version", COHORT_VERSION},
                     {"summary", "Durable chains of steps, in groups with limits."},
                     {"license", {{"name", "MIT"}, {"identifier", "MIT"}}}}},
                   {"servers", json::array({{{"url", "http://127.0.0.1:7070"}}})}};
  json paths = json::object();
  for (const ApiRoute& route : api_routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c - 'A' + 'a');
    paths[std::string(route.path)][method] = operation_of(route);
  }
  document["paths"] = std::move(paths);
  document["components"] = {{"schemas", json::parse(kSchemas)}};
  return document.dump(2) + "\n";
}

}  // namespace cohort
