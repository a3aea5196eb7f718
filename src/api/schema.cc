#include "api/schema.h"

#include <utility>

namespace cohort::schema {

namespace {

Json object_of(const std::vector<Member>& members) {
  Json out = {{"type", "object"}};
  Json required = Json::array();
  for (const Member& each : members) {
    if (each.presence == kAlways) required.push_back(each.name);
  }
  if (!required.empty()) out["required"] = std::move(required);
  Json properties = Json::object();
  for (const Member& each : members) properties[each.name] = each.schema;
  out["properties"] = std::move(properties);
  return out;
}

}  // namespace

Json any(const char* meaning) {
  Json out = Json::object();
  if (*meaning != 0) out["description"] = meaning;
  return out;
}

Json text(std::uint32_t most_characters, std::uint32_t least_characters) {
  Json out = {{"type", "string"}};
  if (least_characters != 0) out["minLength"] = least_characters;
  if (most_characters != 0) {  // A text of a request.
    out["maxLength"] = most_characters;
    out["pattern"] = "^[^\\u0000]*$";
  }
  return out;
}

Json word(std::vector<std::string_view> words) { return {{"type", "string"}, {"enum", std::move(words)}}; }
Json whole(std::uint64_t min, std::uint64_t max) { return {{"type", "integer"}, {"minimum", min}, {"maximum", max}}; }
Json whole() { return {{"type", "integer"}}; }
Json number() { return {{"type", "number"}}; }
Json flag() { return {{"type", "boolean"}}; }
Json time() { return {{"type", "string"}, {"format", "date-time"}}; }
Json length() { return named("Length"); }
Json object() { return {{"type", "object"}}; }

Json list(Json items, std::uint32_t most) {
  Json out = {{"type", "array"}};
  if (most != 0) out["maxItems"] = most;
  out["items"] = std::move(items);
  return out;
}

Json named(std::string_view name) { return {{"$ref", "#/components/schemas/" + std::string(name)}}; }
Json any_of(std::vector<Json> schemas) { return {{"anyOf", std::move(schemas)}}; }

Json described(Json schema, std::string_view meaning) {
  if (!meaning.empty()) schema["description"] = meaning;
  return schema;
}

Json answer(const std::vector<Member>& members) { return object_of(members); }

Json request(const std::vector<Member>& members) {
  Json out = object_of(members);
  out["additionalProperties"] = false;
  return out;
}

}  // namespace cohort::schema
