#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

/// Returns the word of `known` that `word` is probably a misspelling of, or "" if no word is close enough.
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace cohort::internal
