#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::internal {

/// The word of `known` that `word` was probably meant to be, or "".
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace cohort::internal
