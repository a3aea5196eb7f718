#include "cli/table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Table sample() {
  Table table(
      {{.title = "TASK"}, {.title = "TRY", .is_number = true, .min_width = 3}, {.title = "ERROR", .shortens = true}});
  table.add_row({{"task-1"}, {"2"}, {"the file is not there, and was never"}});
  table.add_row({{"task-22"}, {"10"}, {""}});
  return table;
}

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(sample().render(0, {}),
            "TASK     TRY  ERROR\n"
            "task-1     2  the file is not there, and was never\n"
            "task-22   10\n");
}

TEST(Table, WhatMayBeShortenedGivesWayFirst) {
  EXPECT_EQ(sample().render(30, {}),
            "TASK     TRY  ERROR\n"
            "task-1     2  the file is not\xE2\x80\xA6\n"
            "task-22   10\n");
}

TEST(Table, ThenTheOthersDownToTheirMinimum) {
  EXPECT_EQ(sample().render(1, {}),
            "TASK    TRY  ERROR\n"
            "task-1    2  the f\xE2\x80\xA6\n"
            "task-\xE2\x80\xA6   10\n");
}

TEST(Table, TheWidestOfTheShorteningColumnsIsCut) {
  Table table({{.title = "A", .shortens = true}, {.title = "B", .shortens = true}});
  table.add_row({{"twelve chars"}, {"thirty characters and no more."}});

  EXPECT_EQ(lines_of(table.render(34, {}))[1], "twelve chars  thirty characters a\xE2\x80\xA6");
}

TEST(Table, EveryWidthThatCanBeMetIsMet) {
  for (int width = 19; width < 60; ++width) {
    for (const std::string& line : lines_of(sample().render(width, {}))) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(Table, WideCharactersKeepTheColumnsStraight) {
  Table table({{.title = "NAME"}, {.title = "N"}});
  table.add_row({{"\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E"}, {"1"}});
  table.add_row({{"abcdef"}, {"2"}});

  EXPECT_EQ(table.render(0, {}), "NAME    N\n\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E  1\nabcdef  2\n");
}

TEST(Table, ColoursDoNotCountAsWidth) {
  Table table({{.title = "STATE"}, {.title = "N"}});
  table.add_row({{"ok", Colour::kGreen}, {"1"}});

  EXPECT_EQ(lines_of(table.render(20, {.colour = true}))[1], "\x1b[32mok\x1b[0m     1");
}

}  // namespace
}  // namespace cohort
