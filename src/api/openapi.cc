#include "api/openapi.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/routes.h"
#include "api/schemas.h"
#include "cohort/base/version.h"

namespace cohort {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kNoNul = "^[^\\u0000]*$";

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
    parameters.push_back(
        {{"name", name},
         {"in", "path"},
         {"required", true},
         {"schema", {{"type", "string"}, {"minLength", 1}, {"maxLength", length}, {"pattern", kNoNul}}}});
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
    const bool is_required = route.id == Operation::kSubmitTasks || route.id == Operation::kResizeGroup;
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
  document["components"] = {{"schemas", api_schemas()}};
  return document.dump(2) + "\n";
}

}  // namespace cohort
