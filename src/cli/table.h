#pragma once

#include <string>
#include <vector>

#include "cli/text.h"

namespace cohort {

/// Rows of cells under titles, made to fit the width of a terminal.
///
/// If it is too wide, the widest of the columns that may be shortened give way first, then the widest of the others; no
/// column below its minimum. If that is not enough, columns with a `drop` are left out, the highest first. Cells are
/// cut with a … and are expected to be safe for a terminal.
///
///     Table table({{.title = "TASK"}, {.title = "ERROR", .shortens = true}});
///     table.add_row({{"t-1"}, {"no such file", Colour::kRed}});
///     out << table.render(100, style);
///
/// Thread-safety: thread-compatible.
class Table {
 public:
  struct Column {
    std::string title;
    bool shortens = false;   ///< May be cut before others are.
    bool is_number = false;  ///< Stands to the right.
    int min_width = 6;
    int drop = 0;  ///< Above 0: left out where minimum widths do not fit.
  };
  struct Cell {
    std::string text;
    Colour colour = Colour::kNone;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns.
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// With a title line; each line ends in a line break. `width` 0: as wide as it wants to be.
  [[nodiscard]] std::string render(int width, const Style& style) const;

 private:
  [[nodiscard]] Table without_what_does_not_fit(int width) const;
  [[nodiscard]] std::vector<int> natural_widths() const;
  [[nodiscard]] std::vector<int> fitted_widths(int width) const;
  [[nodiscard]] std::string line(const std::vector<Cell>& cells, const std::vector<int>& widths,
                                 const Style& style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace cohort
