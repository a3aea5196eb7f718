#include "cli/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/base/assert.h"

namespace cohort {
namespace {

constexpr int kGap = 2;

}  // namespace

void Table::add_row(std::vector<Cell> cells) {
  COHORT_ASSERT(cells.size() == columns_.size(), "a row has as many cells as the table has columns");
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::natural_widths() const {
  std::vector<int> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int widest = display_width(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, display_width(row[i].text));
    widths.push_back(widest);
  }
  return widths;
}

std::vector<int> Table::fitted_widths(int width) const {
  std::vector<int> widths = natural_widths();
  if (width == 0 || widths.empty()) return widths;
  const int gaps = kGap * static_cast<int>(widths.size() - 1);
  int excess = std::accumulate(widths.begin(), widths.end(), gaps) - width;
  for (const bool only_shortening : {true, false}) {
    while (excess > 0) {
      int* widest = nullptr;
      for (std::size_t i = 0; i < widths.size(); ++i) {
        if (only_shortening && !columns_[i].shortens) continue;
        if (widths[i] <= columns_[i].min_width) continue;
        if (widest == nullptr || widths[i] > *widest) widest = &widths[i];
      }
      if (widest == nullptr) break;
      --*widest;
      --excess;
    }
  }
  return widths;
}

std::string Table::line(const std::vector<Cell>& cells, const std::vector<int>& widths, const Style& style) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_last = i + 1 == cells.size();
    std::string text = cut_to_width(cells[i].text, widths[i]);
    const auto missing = static_cast<std::size_t>(std::max(0, widths[i] - display_width(text)));
    if (columns_[i].is_number) out.append(missing, ' ');
    out += style.paint(cells[i].colour, text);
    if (is_last) break;
    if (!columns_[i].is_number) out.append(missing, ' ');
    out.append(kGap, ' ');
  }
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

Table Table::without_what_does_not_fit(int width) const {
  Table table = *this;
  for (;;) {
    const std::vector<int> widths = table.fitted_widths(width);
    const int gaps = kGap * static_cast<int>(widths.size() - 1);
    const auto first = std::ranges::max_element(table.columns_, {}, &Column::drop);
    if (std::accumulate(widths.begin(), widths.end(), gaps) <= width || first->drop == 0) return table;
    const auto at = first - table.columns_.begin();
    table.columns_.erase(first);
    for (auto& row : table.rows_) row.erase(row.begin() + at);
  }
}

std::string Table::render(int width, const Style& style) const {
  if (width != 0 && std::ranges::any_of(columns_, [](const Column& column) { return column.drop > 0; })) {
    Table table = without_what_does_not_fit(width);
    for (Column& column : table.columns_) column.drop = 0;
    return table.render(width, style);
  }
  const std::vector<int> widths = fitted_widths(width);
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.push_back({column.title, Colour::kBold});
  std::string out = line(titles, widths, style);
  for (const auto& row : rows_) out += line(row, widths, style);
  return out;
}

}  // namespace cohort
