#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/config_problems.h"

namespace cohort::internal {

/// A value in a YAML text, as it is written: nothing is taken for a number or a truth value yet.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  TextPlace place = {};
  std::string text = {};   ///< Of a scalar.
  bool is_quoted = false;  ///< In quotes or as a block: text, whatever it looks like.
  std::string key = {};    ///< Under which it is in its map.
  TextPlace key_place = {};
  std::vector<YamlNode> children = {};  ///< In the order of the text.

  /// The child with that key, or null.
  [[nodiscard]] const YamlNode* find(std::string_view name) const;
  /// Where a problem with it is to be looked for: nothing has no place of its own, its key has.
  [[nodiscard]] TextPlace problem_place() const { return kind == Kind::kNull ? key_place : place; }
};

inline constexpr std::size_t kMaxYamlBytes = 1U << 20U;
inline constexpr std::size_t kMaxYamlDepth = 32;
inline constexpr std::size_t kMaxYamlNodes = 100'000;

/// Reads a text of one document; an empty one is an empty map. Of a key that is there twice the first counts, and the
/// second is a problem. Nothing: the text cannot be read, and a problem says why. Anchors, aliases, tags and further
/// documents are not read.
[[nodiscard]] std::optional<YamlNode> read_yaml(std::string_view text, ConfigProblems& problems);

}  // namespace cohort::internal
