#include "node/config_schema.h"

#include <algorithm>

#include "cohort/base/internal/nearest_word.h"

namespace cohort::internal {

std::optional<std::size_t> SectionInfo::find(const YamlNode& child, const ConfigPlace& place) const {
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].name == child.key) return i;
    known.emplace_back(keys[i].name);
  }
  std::string text = "unknown key " + in_quotes(child.key) + " " +
                     (place.path.empty() ? "at the top of the file" : "in " + place.path);
  if (const std::string nearest = nearest_word(child.key, known); !nearest.empty()) {
    text += "; did you mean '" + nearest + "'?";
  } else {
    text += "; there are: ";
    for (std::size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : ", ") + std::string(known[i]);
  }
  place.problems->add(child.key_place, std::move(text));
  return std::nullopt;
}

void SectionInfo::require(const YamlNode& node, const ConfigPlace& place) const {
  for (const KeyInfo& key : keys) {
    if (!key.is_required || node.find(key.name) != nullptr) continue;
    place.problem(node.key_place, "'" + key.name + "' is missing, expected " + key.type + ", such as " + key.sample);
  }
}

bool NameRule::accepts(const YamlNode& child, std::size_t index, const ConfigPlace& place) const {
  if (index >= kMaxSections) {
    if (index == kMaxSections) place.problem(child.key_place, "more than 10000 entries; remove some");
    return false;
  }
  std::string wrong = child.key.empty() || child.key.size() > kMaxBytes ? "has to be 1 to 1024 bytes" : "";
  if (wrong.empty() && check) wrong = check(child.key);
  if (!wrong.empty()) place.problem(child.key_place, "the name " + in_quotes(child.key) + " " + wrong);
  return wrong.empty();
}

bool is_section(const YamlNode& node, const ConfigPlace& place) {
  if (node.kind == YamlNode::Kind::kMap || node.kind == YamlNode::Kind::kNull) return true;
  place.wrong_type(node, "a section of keys and values", "{key: value}");
  return false;
}

namespace {

std::string table(const std::string& path, const std::string& help, const SectionInfo& section) {
  std::string text = "## " + path + "\n\n" + help + "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const KeyInfo& key : section.keys) {
    const std::string initial = key.is_required ? "required" : key.initial.empty() ? "" : "`" + key.initial + "`";
    text += "| `" + key.name + "` | " + key.type + " | " + initial + " | " + key.help + " |\n";
  }
  return text + "\n";
}

std::string tables(const std::string& path, const SectionInfo& section) {
  std::string text;
  for (const KeyInfo& key : section.keys) {
    if (!key.section) continue;
    const std::string inside = (path.empty() ? "" : path + ".") + key.name + (key.names.empty() ? "" : ".NAME");
    const auto& keys = key.section->keys;
    const bool has_values = std::any_of(keys.begin(), keys.end(), [](const KeyInfo& each) { return !each.section; });
    if (has_values) text += table(inside, key.help, *key.section);
    text += tables(inside, *key.section);
  }
  return text;
}

std::string example(const SectionInfo& section, const std::string& indent) {
  std::string text;
  for (const KeyInfo& key : section.keys) {
    text += indent + key.name + ":";
    if (!key.section) {
      text += " " + key.sample + "\n";
      continue;
    }
    text += "\n";
    if (key.names.empty()) text += example(*key.section, indent + "  ");
    for (const std::string& name : key.names) {
      text += indent + "  " + yaml_text(name) + ":\n" + example(*key.section, indent + "    ");
    }
  }
  return text;
}

}  // namespace

std::string markdown_of(const SectionInfo& root) {
  return tables("", root) + "## Example\n\nEvery key, most with its default.\n\n```yaml\n" + example(root, "") +
         "```\n";
}

}  // namespace cohort::internal
