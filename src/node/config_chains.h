#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cohort/chain/chain_options.h"
#include "node/config_kinds.h"
#include "node/config_schema.h"

namespace cohort::internal {

/// A value of YAML as JSON: a scalar without quotes that is a number, true, false or null is that; all else is text.
[[nodiscard]] nlohmann::json json_of(const YamlNode& node);

namespace kinds {

/// Any value, as JSON.
[[nodiscard]] ValueKind<nlohmann::json> json_value();
/// Steps as a task has them: a plugin's name, or {plugin, parameters, timeout, retry}.
[[nodiscard]] ValueKind<std::vector<ChainStep>> steps();
/// A duration above 0, or the word `none`, which is Duration::max().
[[nodiscard]] ValueKind<Duration> duration_or_none(Duration least, Duration most);

}  // namespace kinds

/// One named chain.
[[nodiscard]] Section<ChainTemplate> chain_template_section();

}  // namespace cohort::internal
