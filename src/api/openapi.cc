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
  "Duration": {"type": "string", "description": "1h30m, 5m, 2.5s, 500ms", "examples": ["30s"]},
  "Retry": {"type": "object", "additionalProperties": false, "properties": {
    "max_retries": {"type": "integer"}, "backoff": {"$ref": "#/components/schemas/Duration"}, "multiplier": {"type": "number"},
    "max_backoff": {"$ref": "#/components/schemas/Duration"}, "jitter": {"type": "number"}}},
  "Callback": {"type": "object", "required": ["plugin"], "additionalProperties": false, "properties": {
    "plugin": {"type": "string"}, "parameters": {"type": "object"}, "timeout": {"$ref": "#/components/schemas/Duration"},
    "retry": {"$ref": "#/components/schemas/Retry"}}},
  "NewTask": {"type": "object", "required": ["group"], "additionalProperties": false, "properties": {
    "id": {"type": "string", "maxLength": 128}, "group": {"type": "string", "maxLength": 1024}, "session": {"type": "string"},
    "file": {"type": "string", "description": "file:, http: or https:"}, "payload": {"type": "object"},
    "callbacks": {"type": "array", "maxItems": 100, "items": {"$ref": "#/components/schemas/Callback"}},
    "deadline": {"$ref": "#/components/schemas/Duration"}, "priority": {"type": "string", "enum": ["high", "normal", "low"]},
    "tags": {"type": "array", "maxItems": 32, "items": {"type": "string"}}, "start_at": {"type": "string", "format": "date-time"},
    "idempotency_key": {"type": "string"}, "pending": {"type": "boolean"}}},
  "NewTasks": {"oneOf": [{"$ref": "#/components/schemas/NewTask"}, {"type": "object", "required": ["tasks"], "properties": {
    "tasks": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/components/schemas/NewTask"}}}}]},
  "Submitted": {"oneOf": [{"type": "object", "properties": {"id": {"type": "string"}, "state": {"$ref": "#/components/schemas/State"},
    "existed": {"type": "boolean"}}}, {"type": "object", "properties": {"results": {"type": "array", "items": {"type": "object"}}}}]},
  "Task": {"type": "object", "properties": {"id": {"type": "string"}, "group": {"type": "string"},
    "state": {"$ref": "#/components/schemas/State"}, "step": {"type": "integer"}, "attempt": {"type": "integer"},
    "progress": {"type": "number"}, "error": {"type": "string"}, "context": {"type": "object"},
    "callbacks": {"type": "array", "items": {"$ref": "#/components/schemas/Callback"}}, "log": {"type": "array", "items": {"type": "string"}}}},
  "TaskPage": {"type": "object", "properties": {"tasks": {"type": "array", "items": {"$ref": "#/components/schemas/Task"}}, "cursor": {"type": "string"}}},
  "Reason": {"type": "object", "additionalProperties": false, "properties": {"reason": {"type": "string", "maxLength": 1000}}},
  "Cancelled": {"type": "object", "properties": {"state": {"$ref": "#/components/schemas/State"}, "cancel_requested": {"type": "boolean"}}},
  "Replay": {"type": "object", "additionalProperties": false, "properties": {"from_step": {"type": "integer", "minimum": 0}, "deadline": {"$ref": "#/components/schemas/Duration"}}},
  "Explanation": {"type": "object", "properties": {"task": {"type": "string"}, "state": {"$ref": "#/components/schemas/State"}, "text": {"type": "string"},
    "reasons": {"type": "array", "items": {"type": "string"}}}},
  "DeadLetter": {"type": "object", "properties": {"task_id": {"type": "string"}, "group": {"type": "string"}, "state": {"$ref": "#/components/schemas/State"},
    "reason": {"type": "string"}, "callback": {"type": "string"}, "step": {"type": "integer"}, "attempts": {"type": "integer"},
    "failed_at": {"type": "string", "format": "date-time"}, "log": {"type": "array", "items": {"type": "string"}}}},
  "DeadLetterPage": {"type": "object", "properties": {"dead_letters": {"type": "array", "items": {"$ref": "#/components/schemas/DeadLetter"}}, "cursor": {"type": "string"}}},
  "ReplayFilter": {"type": "object", "additionalProperties": false, "properties": {"group": {"type": "string"}, "state": {"type": "string", "enum": ["failed", "expired", "poison"]},
    "plugin": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 1000}, "cursor": {"type": "string"}, "deadline": {"$ref": "#/components/schemas/Duration"}, "dry_run": {"type": "boolean"}}},
  "Replayed": {"type": "object", "properties": {"matched": {"type": "integer"}, "replayed": {"type": "integer"}, "dry_run": {"type": "boolean"},
    "tasks": {"type": "array", "items": {"type": "string"}}, "failed": {"type": "array", "items": {"type": "object"}}, "cursor": {"type": "string"}}},
  "Group": {"type": "object", "properties": {"group": {"type": "string"}, "paused": {"type": "boolean"}, "pending": {"type": "integer"},
    "ready": {"type": "integer"}, "processing": {"type": "integer"}, "running": {"type": "integer"}, "max_concurrency": {"type": "integer"},
    "max_in_flight": {"type": "integer"}, "weight": {"type": "number"}}},
  "GroupList": {"type": "object", "properties": {"groups": {"type": "array", "items": {"$ref": "#/components/schemas/Group"}}, "cursor": {"type": "string"}}},
  "Resize": {"type": "object", "additionalProperties": false, "minProperties": 1, "properties": {"max_concurrency": {"type": "integer", "minimum": 1},
    "max_in_flight": {"type": "integer", "minimum": 1}, "weight": {"type": "number", "exclusiveMinimum": 0}}},
  "Node": {"type": "object", "properties": {"node": {"type": "string"}, "version": {"type": "string"}, "boot": {"type": "string"}, "state": {"type": "string"},
    "uptime_s": {"type": "number"}, "plugins": {"type": "array", "items": {"type": "string"}}, "tasks": {"type": "object"}, "dead_letters": {"type": "integer"}}},
  "Health": {"type": "object", "properties": {"status": {"type": "string"}}},
  "OpenApi": {"type": "object"},
  "EventStream": {"type": "string", "description": "id: SEQUENCE, event: KIND, data: {sequence, at, kind, task_id, group, step, detail}; or event: gap, data: {from, to}"},
  "Problem": {"type": "object", "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"}, "code": {"type": "string"}, "detail": {"type": "string"}}}
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
    parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  for (const QueryParameter& each : route.query) {
    parameters.push_back({{"name", each.name},
                          {"in", "query"},
                          {"description", each.meaning},
                          {"schema", {{"type", each.name == "limit" ? "integer" : "string"}}}});
  }
  return parameters;
}

json operation_of(const ApiRoute& route) {
  json operation = {{"operationId", route.operation}, {"summary", route.summary}};
  if (json parameters = parameters_of(route); !parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.body.empty()) operation["requestBody"] = {{"content", content(route.body)}};
  json done = {{"description", "Done."}};
  if (!route.answer.empty()) done["content"] = content(route.answer);
  operation["responses"] = {{std::to_string(route.status), std::move(done)},
                            {"default",
                             {{"description", "Refused or failed."},
                              {"content", {{"application/problem+json", {{"schema", reference("Problem")}}}}}}}};
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
