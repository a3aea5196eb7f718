#include "chain/step_outputs.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "chain/json_depth.h"

namespace cohort {

using nlohmann::json;

namespace {

Error refuse(const ChainTask& task, const std::string& what) {
  return {ErrorCode::kInvalid, step_name(task) + " put out " + what};
}

void add_artifacts(json& context, json before, const ChainTask& task, const std::vector<Artifact>& artifacts) {
  if (!before.is_array()) before = json::array();
  for (const Artifact& each : artifacts) {
    before.push_back(
        {{"step", task.step + 1}, {"name", each.name}, {"path", each.path.string()}, {"bytes", each.bytes}});
  }
  context["artifacts"] = std::move(before);
}

}  // namespace

Result<std::string> merged_context(const ChainTask& task, const PluginResult& result) {
  const json& outputs = result.outputs();
  if (!outputs.is_object() && !outputs.is_null()) return refuse(task, "something that is not an object");
  if (outputs.contains("artifacts")) return refuse(task, "'artifacts', a name that is for files that outlive a step");
  if (outputs.empty() && result.artifacts().empty()) return task.context;
  if (is_too_deep(outputs)) return refuse(task, "JSON of more than 64 levels");
  json context = json::parse(task.context, nullptr, false);
  if (!context.is_object()) context = json::object();
  json artifacts = context.value("artifacts", json::array());
  if (!outputs.is_null()) context.update(outputs);
  if (!result.artifacts().empty()) add_artifacts(context, std::move(artifacts), task, result.artifacts());
  std::string text = context.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= NewTask::kMaxContextBytes) return text;
  return Error{ErrorCode::kInvalid, "with what " + step_name(task) + " put out the context has " +
                                        std::to_string(text.size()) + " bytes; at most " +
                                        std::to_string(NewTask::kMaxContextBytes) + " are allowed"};
}

}  // namespace cohort
