#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/chain/plugin.h"
#include "cohort/store/chain_task.h"

namespace cohort {

/// A typed parameter of a named chain. A submitter must give it unless it has a default.
struct ChainParameter {
  enum class Type : std::uint8_t { kString, kInteger, kNumber, kBoolean } type = Type::kString;
  std::string description = {};
  std::optional<nlohmann::json> initial = {};  ///< The default.
  std::optional<double> minimum = {};          ///< Of a number or an integer.
  std::optional<double> maximum = {};
  std::vector<nlohmann::json> one_of = {};  ///< Empty: any value of the type.
};

[[nodiscard]] std::string_view to_string(ChainParameter::Type type);

/// A chain that tasks may name: steps in which parameters stand as placeholders. In the parameters of a step, a text
/// that is exactly "${width}" becomes the typed value of `width`; in a longer text "${width}" becomes the value as
/// text; "$${" stands for "${".
struct ChainTemplate {
  std::string description = {};
  std::map<std::string, ChainParameter> parameters = {};
  std::vector<ChainStep> steps = {};
  std::string place = {};  ///< Where it is configured, for messages: "cohort.yaml:12:5"; empty: in code.
  std::vector<std::string> step_places = {};  ///< Where each step is; empty: in code.
};

/// A named chain with values put in.
struct ExpandedChain {
  std::vector<ChainStep> steps = {};
  nlohmann::json given = nlohmann::json::object();  ///< The values that were given, with their types; no defaults.
};

/// Checks the chain itself. kInvalid: a placeholder names no parameter, or a default breaks the rules of its parameter.
[[nodiscard]] Result<void> check(const ChainTemplate& chain);
/// Checks named chains against the plugins that are to run them, as far as is known before a task gives values.
/// kInvalid, with the place.
[[nodiscard]] Result<void> check(const std::map<std::string, ChainTemplate>& chains, const PluginRegistry& plugins);
/// Checks the placeholders of one text. kInvalid: one is not closed, or names no parameter of the chain.
[[nodiscard]] Result<void> check_placeholders(const ChainTemplate& chain, const std::string& text);
/// Puts the given values and the defaults into the steps. A value may be given as text: "200" for an integer.
/// kInvalid: a parameter is missing, unknown, of another type or out of its range.
[[nodiscard]] Result<ExpandedChain> expand(const ChainTemplate& chain, const nlohmann::json& given);
/// The JSON that the API shows for the chain.
[[nodiscard]] nlohmann::json to_json(const std::string& name, const ChainTemplate& chain);

}  // namespace cohort
