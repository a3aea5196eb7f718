#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/internal/nearest_word.h"
#include "cohort/base/result.h"
#include "plugin/step_text.h"

namespace cohort {

/// A parameter of a built-in step, as docs/reference/steps.md shows it.
struct ParameterInfo {
  std::string_view name;
  std::string_view type;
  std::string_view initial;  ///< The default; empty: none.
  std::string_view meaning;
};

/// A parameter and the function that checks its value and keeps it.
template <class Step>
struct StepParameter {
  ParameterInfo info;
  Result<void> (*read)(const nlohmann::json& value, Step& step);
};

template <class Step, std::size_t kCount>
using StepParameters = std::array<StepParameter<Step>, kCount>;

/// "parameters.widht: there is no such parameter; did you mean 'width'? There are: …"
[[nodiscard]] inline Error unknown_parameter(const std::string& name, const std::vector<std::string_view>& known) {
  std::string all;
  for (const std::string_view each : known) all += (all.empty() ? "" : ", ") + std::string(each);
  const std::string nearest = internal::nearest_word(name, known);
  return {ErrorCode::kInvalid, "parameters." + name.substr(0, 100) + ": there is no such parameter; " +
                                   (nearest.empty() ? "there are: " : "did you mean '" + nearest + "'? There are: ") +
                                   all};
}

/// Reads the parameters of a step by their table. kInvalid, with the place: one is unknown or has a wrong value.
template <class Step, std::size_t kCount>
[[nodiscard]] Result<Step> read_parameters(const StepParameters<Step, kCount>& table,
                                           const nlohmann::json& parameters) {
  if (!parameters.is_object()) return Error{ErrorCode::kInvalid, "parameters: it is an object"};
  Step step;
  for (auto each = parameters.begin(); each != parameters.end(); ++each) {
    const StepParameter<Step>* found = nullptr;
    for (const StepParameter<Step>& known : table) {
      if (known.info.name == each.key()) found = &known;
    }
    if (found == nullptr) {
      std::vector<std::string_view> names;
      for (const StepParameter<Step>& known : table) names.push_back(known.info.name);
      return unknown_parameter(each.key(), names);
    }
    if (auto read = found->read(*each, step); !read) return at_place("parameters." + each.key(), read.error());
  }
  return step;
}

template <class Step, std::size_t kCount>
[[nodiscard]] std::vector<ParameterInfo> infos_of(const StepParameters<Step, kCount>& table) {
  std::vector<ParameterInfo> infos;
  for (const StepParameter<Step>& each : table) infos.push_back(each.info);
  return infos;
}

/// The parameters of each built-in step, from the tables that check them.
[[nodiscard]] std::vector<ParameterInfo> exec_parameters();
[[nodiscard]] std::vector<ParameterInfo> http_parameters();
[[nodiscard]] std::vector<ParameterInfo> sha256_parameters();

/// docs/reference/steps.md.
[[nodiscard]] std::string steps_reference();

}  // namespace cohort
