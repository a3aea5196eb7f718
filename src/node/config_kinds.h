#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/clock.h"
#include "node/yaml_tree.h"

namespace cohort::internal {

/// Where in the settings reading is, and whom to tell of problems.
struct ConfigPlace {
  std::string path = {};  ///< "chains.retry"; empty: the whole file.
  ConfigProblems* problems = nullptr;

  [[nodiscard]] ConfigPlace inside(std::string_view key) const;
  [[nodiscard]] ConfigPlace item(std::size_t index) const;
  void problem(TextPlace place, const std::string& text) const;
  /// "found a list, expected true or false, such as true"
  void wrong_type(const YamlNode& node, const std::string& expected, const std::string& sample) const;
  void out_of_range(const YamlNode& node, const std::string& expected) const;
};

/// One kind of value: how it is read, written and described.
template <class V>
struct ValueKind {
  std::string type;    ///< "a whole number from 1 to 64"
  std::string sample;  ///< One that is right, as YAML.
  /// False: it is not one, and the place's problems say so.
  std::function<bool(const YamlNode&, V&, const ConfigPlace&)> read;
  std::function<std::string(const V&)> show;  ///< As YAML.
};

enum class Fit { kGood, kWrongType, kOutOfRange };
enum class Quotes { kAllowed, kRefused };

/// Text as YAML: in quotes where it needs them.
[[nodiscard]] std::string yaml_text(std::string_view text);

namespace kinds {

/// A kind that is one scalar.
template <class V>
ValueKind<V> scalar(std::string type, std::string sample, Quotes quotes,
                    std::function<Fit(const std::string&, V&)> parse, std::function<std::string(const V&)> show) {
  const auto read = [=](const YamlNode& node, V& value, const ConfigPlace& place) {
    const bool is_text = node.kind == YamlNode::Kind::kScalar && (!node.is_quoted || quotes != Quotes::kRefused);
    const Fit fit = is_text ? parse(node.text, value) : Fit::kWrongType;
    if (fit == Fit::kWrongType) place.wrong_type(node, type, sample);
    if (fit == Fit::kOutOfRange) place.out_of_range(node, type);
    return fit == Fit::kGood;
  };
  return {type, sample, read, std::move(show)};
}

[[nodiscard]] ValueKind<std::uint64_t> count(std::uint64_t least, std::uint64_t most);
/// A count of 32 bits, or the word `unlimited`, which is kUnlimited.
[[nodiscard]] ValueKind<std::uint64_t> count_or_unlimited(std::uint64_t least, std::uint64_t most);
[[nodiscard]] ValueKind<double> number(double least, double most);
/// `true` or `false`, and no other word.
[[nodiscard]] ValueKind<bool> yes_no();
/// As parse_duration() reads it; where it may be nothing also 0.
[[nodiscard]] ValueKind<Duration> duration(Duration least, Duration most);
/// In bytes: 512, 64KiB, 10MiB, 1GiB, 1TiB.
[[nodiscard]] ValueKind<std::uint64_t> size(std::uint64_t least, std::uint64_t most);
[[nodiscard]] ValueKind<std::string> text(std::size_t least_bytes, std::size_t most_bytes);
[[nodiscard]] ValueKind<std::filesystem::path> path(bool may_be_empty);
[[nodiscard]] ValueKind<std::filesystem::path> absolute_path();
/// http:// or https://, with a host.
[[nodiscard]] ValueKind<std::string> url();

template <class E>
ValueKind<E> choice(std::vector<std::pair<std::string, E>> words) {
  std::string type = words.size() == 1 ? "" : "one of ";
  for (const auto& [word, value] : words) type += (word == words.front().first ? "" : ", ") + word;
  const auto parse = [words](const std::string& text, E& value) {
    for (const auto& [word, meaning] : words) {
      if (word != text) continue;
      value = meaning;
      return Fit::kGood;
    }
    return Fit::kWrongType;
  };
  const auto show = [words](const E& value) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) return word;
    }
    return std::string();
  };
  return scalar<E>(type, words.front().first, Quotes::kAllowed, parse, show);
}

template <class V>
ValueKind<std::vector<V>> list_of(const ValueKind<V>& each, std::size_t least, std::size_t most) {
  const std::string type = "a list of " + std::to_string(least) + " to " + std::to_string(most) + ", each " + each.type;
  const std::string sample = "[" + each.sample + "]";
  const auto read = [=](const YamlNode& node, std::vector<V>& values, const ConfigPlace& place) {
    if (node.kind != YamlNode::Kind::kList) return place.wrong_type(node, type, sample), false;
    const std::size_t items = node.children.size();
    if (items < least || items > most) return place.out_of_range(node, type), false;
    std::vector<V> all(items);
    bool good = true;
    for (std::size_t i = 0; i < items; ++i) good = each.read(node.children[i], all[i], place.item(i)) && good;
    if (good) values = std::move(all);
    return good;
  };
  const auto show = [each](const std::vector<V>& values) {
    std::string all;
    for (const V& value : values) all += (all.empty() ? "" : ", ") + each.show(value);
    return "[" + all + "]";
  };
  return {type, sample, read, show};
}

/// Names with values: the environment of a program. A name is letters, digits and `_`, and no digit first.
[[nodiscard]] ValueKind<std::map<std::string, std::string>> environment(std::size_t most);

}  // namespace kinds
}  // namespace cohort::internal
