#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// What a request asks for: "/v1/tasks/a%2Fb?limit=5" has the segments v1, tasks, a/b.
struct Target {
  std::vector<std::string> segments;
  std::map<std::string, std::string> query;  ///< A name that comes twice makes no target.

  /// Nothing: it does not begin with a slash, or cannot be decoded.
  [[nodiscard]] static std::optional<Target> parse(std::string_view text);
};

}  // namespace cohort
