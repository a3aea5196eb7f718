#include "cohort/chain/chain_template.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "chain/step_checks.h"
#include "cohort/chain/task_json.h"

namespace cohort {

using nlohmann::json;
using Type = ChainParameter::Type;

namespace {

constexpr std::array<std::string_view, 4> kTypes = {"string", "integer", "number", "boolean"};
constexpr double kLargestInteger = 9007199254740992.0;  // 2^53: beyond it JSON readers round.

Error invalid(std::string text) { return {ErrorCode::kInvalid, std::move(text)}; }

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A text as a value of the type, where it is one: callers such as a command line have only texts.
json converted(const json& value, Type type) {
  if (!value.is_string() || type == Type::kString) return value;
  const auto& text = value.get_ref<const std::string&>();
  if (type == Type::kBoolean && (text == "true" || text == "false")) return text == "true";
  const json parsed = json::parse(text, nullptr, false);
  return (type != Type::kBoolean && parsed.is_number()) ? parsed : value;
}

bool is_of(const json& value, Type type) {
  switch (type) {
    case Type::kString: return value.is_string();
    case Type::kBoolean: return value.is_boolean();
    case Type::kNumber: return value.is_number();
    case Type::kInteger: break;
  }
  if (value.is_number_integer()) return true;
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return std::trunc(number) == number && std::abs(number) <= kLargestInteger;
}

Result<json> accept(const std::string& name, const ChainParameter& parameter, const json& given) {
  json value = converted(given, parameter.type);
  const auto must = [&](const std::string& what) {
    return invalid("the parameter '" + name + "' must be " + what + "; it is " + text_of(given));
  };
  if (!is_of(value, parameter.type)) {
    const bool is_an = parameter.type == Type::kInteger;
    return must((is_an ? "an " : "a ") + std::string(to_string(parameter.type)));
  }
  if (parameter.type == Type::kInteger && value.is_number_float())
    value = static_cast<std::int64_t>(value.get<double>());
  if (parameter.minimum && value.get<double>() < *parameter.minimum) {
    return must("at least " + json(*parameter.minimum).dump());
  }
  if (parameter.maximum && value.get<double>() > *parameter.maximum) {
    return must("at most " + json(*parameter.maximum).dump());
  }
  if (parameter.one_of.empty() || std::ranges::find(parameter.one_of, value) != parameter.one_of.end()) return value;
  std::string all;
  for (const json& each : parameter.one_of) all += (all.empty() ? "" : ", ") + text_of(each);
  return must("one of " + all);
}

using Values = std::map<std::string, json>;
// What stands for a placeholder; null: there is no such parameter.
using Find = std::function<const json*(const std::string& name)>;

Result<json> replaced(const std::string& text, const Find& find) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 3, "$${") == 0) {
      out += "${";
      at += 3;
      continue;
    }
    const std::size_t end = text.compare(at, 2, "${") == 0 ? text.find('}', at) : std::string::npos;
    if (text.compare(at, 2, "${") == 0 && end == std::string::npos) {
      return invalid("'" + text + "' has a ${ that no } ends; write $${ for the text ${");
    }
    if (end == std::string::npos) {
      out += text[at++];
      continue;
    }
    const std::string name = text.substr(at + 2, end - at - 2);
    const json* const value = find(name);
    if (value == nullptr) return invalid("'" + text + "' names '" + name + "', which is no parameter of the chain");
    if (at == 0 && end + 1 == text.size()) return *value;
    out += text_of(*value);
    at = end + 1;
  }
  return json(std::move(out));
}

Result<void> replace_in(json& value, const Find& find) {
  if (value.is_string()) {
    Result<json> made = replaced(value.get_ref<const std::string&>(), find);
    if (!made) return made.error();
    value = *std::move(made);
    return {};
  }
  if (!value.is_structured()) return {};
  for (json& each : value) {
    if (auto good = replace_in(each, find); !good) return good;
  }
  return {};
}

// Something for every parameter, to see which placeholders name one.
Find any_value_of(const ChainTemplate& chain) {
  static const json any = "";
  return [&chain](const std::string& name) { return chain.parameters.contains(name) ? &any : nullptr; };
}

Result<std::vector<ChainStep>> filled(const ChainTemplate& chain, const Find& find) {
  std::vector<ChainStep> steps = chain.steps;
  std::size_t bytes = 0;
  for (ChainStep& step : steps) {
    json parameters = json::parse(step.parameters, nullptr, false);
    if (auto good = replace_in(parameters, find); !good) {
      return invalid(step_name(step, static_cast<std::size_t>(&step - steps.data())) + ": " + good.error().message);
    }
    step.parameters = parameters.dump(-1, ' ', false, json::error_handler_t::replace);
    bytes += step.parameters.size();
    if (bytes > NewTask::kMaxPayloadBytes) {
      return invalid("with its values the parameters of its steps have more than " +
                     std::to_string(NewTask::kMaxPayloadBytes) + " bytes");
    }
  }
  return steps;
}

}  // namespace

std::string_view to_string(Type type) { return kTypes.at(static_cast<std::size_t>(type)); }

Result<void> check(const ChainTemplate& chain) {
  if (chain.steps.empty()) return invalid("a chain has at least one step");
  for (const auto& [name, parameter] : chain.parameters) {
    const bool is_number = parameter.type == Type::kInteger || parameter.type == Type::kNumber;
    if (!is_number && (parameter.minimum || parameter.maximum)) {
      return invalid("the parameter '" + name + "' is no number, so it has no minimum and no maximum");
    }
    for (const json& each : parameter.one_of) {
      if (!is_of(each, parameter.type)) {
        return invalid("the parameter '" + name + "' lists " + text_of(each) + " in one_of, which is no " +
                       std::string(to_string(parameter.type)));
      }
    }
    if (!parameter.initial) continue;
    if (auto good = accept(name, parameter, *parameter.initial); !good) {
      return invalid(good.error().message + ", which is its default");
    }
  }
  const Result<std::vector<ChainStep>> steps = filled(chain, any_value_of(chain));
  if (!steps) return steps.error();
  return check(NewTask{.group = "any", .steps = *steps});  // Time-outs, retries, sizes.
}

Result<void> check(const std::map<std::string, ChainTemplate>& chains, const PluginRegistry& plugins) {
  for (const auto& [name, chain] : chains) {
    const auto refuse = [&name = name](const std::string& place, const Error& why) {
      return Error{ErrorCode::kInvalid, (place.empty() ? "" : place + ": ") + "chain '" + name + "': " + why.message};
    };
    if (Result<void> good = check(chain); !good) return refuse(chain.place, good.error());
    for (std::size_t i = 0; i < chain.steps.size(); ++i) {
      const ChainStep& step = chain.steps[i];
      const bool has_values = step.parameters.find("${") != std::string::npos;
      Result<void> good = has_values ? check_plugin(plugins, step, i) : check_step(plugins, step, i);
      if (!good) return refuse(i < chain.step_places.size() ? chain.step_places[i] : chain.place, good.error());
    }
  }
  return {};
}

Result<void> check_placeholders(const ChainTemplate& chain, const std::string& text) {
  const Result<json> made = replaced(text, any_value_of(chain));
  return made ? Result<void>() : Result<void>(made.error());
}

Result<ExpandedChain> expand(const ChainTemplate& chain, const json& given) {
  ExpandedChain expanded;
  Values values;
  for (const auto& [name, value] : given.items()) {
    const auto parameter = chain.parameters.find(name);
    if (parameter == chain.parameters.end()) {
      std::string known;
      for (const auto& [each, unused] : chain.parameters) known += (known.empty() ? "" : ", ") + each;
      return invalid("the chain has no parameter '" + name + "'; it has: " + (known.empty() ? "none" : known));
    }
    Result<json> accepted = accept(name, parameter->second, value);
    if (!accepted) return accepted.error();
    expanded.given[name] = *accepted;
    values[name] = *std::move(accepted);
  }
  for (const auto& [name, parameter] : chain.parameters) {
    if (values.contains(name)) continue;
    if (!parameter.initial) return invalid("the parameter '" + name + "' of the chain is missing; it has no default");
    Result<json> accepted = accept(name, parameter, *parameter.initial);
    if (!accepted) return accepted.error();
    values[name] = *std::move(accepted);
  }
  Result<std::vector<ChainStep>> steps = filled(chain, [&](const std::string& name) -> const json* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &found->second;
  });
  if (!steps) return steps.error();
  expanded.steps = *std::move(steps);
  return expanded;
}

json to_json(const std::string& name, const ChainTemplate& chain) {
  json parameters = json::array();
  for (const auto& [each, parameter] : chain.parameters) {
    json out = {{"name", each}, {"type", to_string(parameter.type)}, {"required", !parameter.initial.has_value()}};
    if (parameter.initial) out["default"] = *parameter.initial;
    if (parameter.minimum) out["minimum"] = *parameter.minimum;
    if (parameter.maximum) out["maximum"] = *parameter.maximum;
    if (!parameter.one_of.empty()) out["one_of"] = parameter.one_of;
    if (!parameter.description.empty()) out["description"] = parameter.description;
    parameters.push_back(std::move(out));
  }
  json out = {{"name", name}, {"parameters", std::move(parameters)}, {"steps", steps_to_json(chain.steps)}};
  if (!chain.description.empty()) out["description"] = chain.description;
  return out;
}

}  // namespace cohort
