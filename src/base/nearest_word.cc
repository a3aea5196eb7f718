#include "cohort/base/internal/nearest_word.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cohort::internal {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string_view>& known) {
  std::string_view nearest;
  std::size_t least = std::min<std::size_t>(3, word.size() / 3 + 1) + 1;
  for (const std::string_view each : known) {
    const std::size_t longer = std::max(word.size(), each.size()) - std::min(word.size(), each.size());
    if (longer >= least) continue;  // Nor is a long word worth the comparison.
    const std::size_t distance = edit_distance(word, each);
    if (distance >= least) continue;
    least = distance;
    nearest = each;
  }
  return std::string(nearest);
}

}  // namespace cohort::internal
