// The reference and its example, which has every key: what it shows is what is read.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "cohort/node/node_config.h"
#include "node/yaml_tree.h"

namespace cohort {
namespace {

using internal::YamlNode;
using Path = std::vector<std::string>;

std::string example() {
  const std::string all = config_reference();
  const std::size_t begin = all.find("```yaml\n") + 8;
  return all.substr(begin, all.find("```", begin) - begin);
}

YamlNode example_tree() {
  internal::ConfigProblems problems;
  return *internal::read_yaml(example(), problems);
}

// In one line.
std::string written(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return node.is_quoted ? "'" + node.text + "'" : node.text;
  const bool is_map = node.kind == YamlNode::Kind::kMap;
  std::string all;
  for (const YamlNode& each : node.children) {
    all += (all.empty() ? "" : ", ") + (is_map ? "'" + each.key + "': " : "") + written(each);
  }
  return is_map ? "{" + all + "}" : "[" + all + "]";
}

bool is_section(const YamlNode& node) { return node.kind == YamlNode::Kind::kMap && node.key != "environment"; }

// Calls back with a tree for each value: that value and what is required beside it, and nothing else.
void for_each_value(const YamlNode& section,
                    const std::function<void(const YamlNode& tree, const std::string& key)>& then) {
  for (const YamlNode& child : section.children) {
    YamlNode only = section;
    std::erase_if(only.children, [&](const YamlNode& each) {
      static const std::set<std::string> kBeside = {"path", "url", "urls", "steps", "type", "parameters"};
      return each.key != child.key && !kBeside.contains(each.key);
    });
    YamlNode& place = *std::find_if(only.children.begin(), only.children.end(),
                                    [&](const YamlNode& each) { return each.key == child.key; });
    if (!is_section(child)) {
      then(only, child.key);
      continue;
    }
    for_each_value(child, [&](const YamlNode& tree, const std::string& key) {
      place = tree;
      then(only, key);
    });
  }
}

std::size_t rows_of_values() {
  std::istringstream lines(config_reference());
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `") && line.find("| a section |") == std::string::npos) ++rows;
  }
  return rows;
}

TEST(ConfigReferenceTest, TheExampleIsValid) {
  const Result<NodeConfig> config = parse_config(example());

  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->groups.size(), 1U);
  EXPECT_EQ(config->exec.programs.size(), 1U);
  EXPECT_EQ(config->http.pools.size(), 1U);
}

TEST(ConfigReferenceTest, EveryKeyIsAcceptedByItself) {
  std::size_t keys = 0;
  for_each_value(example_tree(), [&](const YamlNode& tree, const std::string& key) {
    ++keys;
    const Result<NodeConfig> config = parse_config(written(tree));
    EXPECT_TRUE(config) << key << ": " << written(tree) << "\n" << config.error();
  });

  constexpr std::size_t kOfAGroup = 7;  // There twice: once as the defaults.
  EXPECT_EQ(keys, rows_of_values() + kOfAGroup);
}

TEST(ConfigReferenceTest, EveryKeyRefusesWhatItIsNot) {
  const std::string text = example();
  std::istringstream lines(text);
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line); at += line.size() + 1) {
    if (line.ends_with(':')) continue;
    const std::size_t value = line.find(": ") + 2;
    std::string changed = text;
    changed.replace(at + value, line.size() - value, "[[]]");
    const Result<NodeConfig> config = parse_config(changed);
    ASSERT_FALSE(config) << line;
    EXPECT_NE(config.error().message.find("expected"), std::string::npos) << config.error().message;
  }
}

TEST(ConfigReferenceTest, DefaultsAreThoseOfTheStructs) {
  const std::string all = config_reference();

  EXPECT_NE(all.find("| `port` | a whole number from 0 to 65535 | `" + std::to_string(AdminConfig{}.port) + "` |"),
            std::string::npos);
  EXPECT_NE(all.find("| `folder` | a path | `" + SqliteOptions{}.folder.string() + "` |"), std::string::npos);
  EXPECT_NE(all.find("| `tasks` | a duration from 0s to 3650d | `7d` |"), std::string::npos);
}

TEST(ConfigReferenceTest, NoMutationOfTheExampleCrashes) {
  const std::regex good_line("(cohort\\.yaml:\\d+:\\d+: .*)|(and \\d+ more)");
  const std::string text = example();
  constexpr std::string_view kOdd = "{}[]:,-?&*!|>'\"%@`#\n\t ~0a\\";
  std::mt19937_64 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };

  for (int round = 0; round < 4000; ++round) {
    std::string changed = text;
    for (std::size_t i = 0; i <= below(4); ++i) {
      const std::size_t at = below(changed.size());
      switch (below(4)) {
        case 0: changed[at] = kOdd[below(kOdd.size())]; break;
        case 1: changed.insert(at, 1, kOdd[below(kOdd.size())]); break;
        case 2: changed.erase(at, below(30)); break;
        default: changed.insert(at, changed.substr(below(changed.size()), below(200)));
      }
    }
    const Result<NodeConfig> config = parse_config(changed);
    if (config) continue;
    std::istringstream lines(config.error().message);
    for (std::string line; std::getline(lines, line);) ASSERT_TRUE(std::regex_match(line, good_line)) << line;
  }
}

}  // namespace
}  // namespace cohort
