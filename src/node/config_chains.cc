#include "node/config_chains.h"

#include <utility>

#include "cohort/base/text_time.h"
#include "cohort/chain/task_json.h"

namespace cohort::internal {

using nlohmann::json;

json json_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return nullptr;
    case YamlNode::Kind::kList: {
      json list = json::array();
      for (const YamlNode& each : node.children) list.push_back(json_of(each));
      return list;
    }
    case YamlNode::Kind::kMap: {
      json map = json::object();
      for (const YamlNode& each : node.children) map[each.key] = json_of(each);
      return map;
    }
    case YamlNode::Kind::kScalar: break;
  }
  if (node.is_quoted) return node.text;
  const json value = json::parse(node.text, nullptr, false);
  return value.is_primitive() && !value.is_discarded() && !value.is_string() ? value : json(node.text);
}

namespace kinds {

constexpr const char* kScalarType = "a text, a number, true or false";

ValueKind<json> json_value() {
  const auto read = [](const YamlNode& node, json& value, const ConfigPlace& place) {
    if (node.kind != YamlNode::Kind::kScalar) return place.wrong_type(node, kScalarType, "200"), false;
    value = json_of(node);
    return true;
  };
  return {kScalarType, "200", read, [](const json& value) { return value.dump(); }};
}

ValueKind<std::vector<ChainStep>> steps() {
  const std::string type = "a list of 1 to 100 steps, each a plugin or {plugin, parameters, timeout, retry}";
  const std::string sample = "[{plugin: sha256}]";
  const auto read = [=](const YamlNode& node, std::vector<ChainStep>& value, const ConfigPlace& place) {
    if (node.kind != YamlNode::Kind::kList) return place.wrong_type(node, type, sample), false;
    if (node.children.empty() || node.children.size() > NewTask::kMaxSteps)
      return place.out_of_range(node, type), false;
    bool good = true;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const YamlNode& child = node.children[i];
      if (child.kind == YamlNode::Kind::kList || child.kind == YamlNode::Kind::kNull) {
        place.wrong_type(child, "a plugin or {plugin, parameters, timeout, retry}", "sha256");
        good = false;
        continue;
      }
      Result<ChainStep> step = step_from_json(json_of(child), "step " + std::to_string(i + 1));
      if (step) {
        value.push_back(*std::move(step));
      } else {
        place.problem(child.place, step.error().message);
        good = false;
      }
    }
    return good;
  };
  return {type, sample, read, [](const std::vector<ChainStep>&) { return std::string(); }};
}

ValueKind<Duration> duration_or_none(Duration least, Duration most) {
  const ValueKind<Duration> length = duration(least, most);
  const auto read = [length](const YamlNode& node, Duration& value, const ConfigPlace& place) {
    if (node.kind != YamlNode::Kind::kScalar || node.text != "none") return length.read(node, value, place);
    value = Duration::max();
    return true;
  };
  return {length.type + ", or none", length.sample, read,
          [](const Duration& value) { return value == Duration::max() ? "none" : format_duration(value); }};
}

}  // namespace kinds

namespace {

Section<ChainParameter> parameter_section() {
  using P = ChainParameter;
  const auto type = kinds::choice<P::Type>({{"string", P::Type::kString},
                                            {"integer", P::Type::kInteger},
                                            {"number", P::Type::kNumber},
                                            {"boolean", P::Type::kBoolean}});
  const auto any_number = kinds::number(-1e15, 1e15);
  return Section<P>()
      .key("type", &P::type, type, "What its values are.", {.sample = "integer"})
      .key("default", &P::initial, kinds::json_value(),
           "Its value where a task gives none. Without it, it must be given.", {.sample = "200"})
      .key("minimum", &P::minimum, any_number, "The least number it may be.", {.sample = "1"})
      .key("maximum", &P::maximum, any_number, "The greatest number it may be.", {.sample = "4000"})
      .key("one_of", &P::one_of, kinds::list_of(kinds::json_value(), 0, 1000),
           "The only values it may have; empty: any.", {.sample = "[100, 200]"})
      .key("description", &P::description, kinds::text(0, 1024), "What it is for.");
}

// Every text in the parameters of the steps, at its own place.
void check_placeholders(const ChainTemplate& chain, const YamlNode& node, const ConfigPlace& place) {
  if (node.kind == YamlNode::Kind::kScalar) {
    if (const auto good = check_placeholders(chain, node.text); !good) place.problem(node.place, good.error().message);
  }
  for (const YamlNode& child : node.children) check_placeholders(chain, child, place);
}

void check_template(const ChainTemplate& chain, const YamlNode& node, const ConfigPlace& place) {
  const std::size_t before = place.problems->count();
  for (const YamlNode& step : node.find("steps")->children) {
    if (const YamlNode* const parameters = step.find("parameters")) check_placeholders(chain, *parameters, place);
  }
  if (place.problems->count() != before) return;
  if (const auto good = check(chain); !good) place.problem(node.problem_place(), good.error().message);
}

}  // namespace

Section<ChainTemplate> chain_template_section() {
  const auto parameter = [](ChainTemplate& chain, const std::string& name) -> auto& { return chain.parameters[name]; };
  return Section<ChainTemplate>()
      .key("description", &ChainTemplate::description, kinds::text(0, 1024), "What the chain is for.")
      .by_name("parameters", parameter, parameter_section(), {.samples = {"width"}},
               "Its parameters. In the parameters of a step, `${width}` stands for a value; `$${` is the text `${`.")
      .key("steps", &ChainTemplate::steps, kinds::steps(), "Its steps, as a task has them.",
           {.sample = "[sha256, {plugin: exec, parameters: {program: thumbnail, size: '${width}'}}]",
            .is_required = true})
      .placed(&ChainTemplate::place)
      .placed_items("steps", &ChainTemplate::step_places)
      .check(check_template);
}

}  // namespace cohort::internal
