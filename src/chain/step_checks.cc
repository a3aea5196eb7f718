#include "chain/step_checks.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "chain/json_depth.h"

namespace cohort {

Result<void> check_plugin(const PluginRegistry& plugins, const ChainStep& step, std::size_t index) {
  if (plugins.find(step.plugin) != nullptr) return {};
  std::string known;
  for (const std::string& name : plugins.names()) known += (known.empty() ? "" : ", ") + name;
  return Error{ErrorCode::kInvalid,
               step_name(step, index) + ": there is no plugin '" + step.plugin + "'; there are: " + known};
}

Result<void> check_step(const PluginRegistry& plugins, const ChainStep& step, std::size_t index) {
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorCode::kInvalid, step_name(step, index) + ": " + why};
  };
  if (Result<void> known = check_plugin(plugins, step, index); !known) return known;
  const Plugin* const plugin = plugins.find(step.plugin);
  const nlohmann::json parameters = nlohmann::json::parse(step.parameters, nullptr, false);
  if (!parameters.is_object() || is_too_deep(parameters)) {
    return refuse("its parameters must be a JSON object of at most 64 levels");
  }
  try {
    const Result<void> good = plugin->check(parameters);
    return good ? good : refuse(good.error().message);
  } catch (const std::exception& thrown) {
    return refuse("the plugin cannot use its parameters: " + std::string(thrown.what()));
  }
}

}  // namespace cohort
