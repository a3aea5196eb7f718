#pragma once

#include <string>

namespace cohort::internal {

/// What a message of the YAML parser means, and what to do about it.
[[nodiscard]] std::string yaml_problem(const std::string& message);

inline constexpr const char* kNoTabs = "a tab in the indentation; use spaces";
inline constexpr const char* kNoAnchors =
    "anchors (&) and aliases (*) are not read; write the value out, or put it in quotes";
inline constexpr const char* kNoTags = "tags (!) are not read; remove it or use quotes";

}  // namespace cohort::internal
