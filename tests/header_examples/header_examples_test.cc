// Every C++ example of a public header stands in header_examples.cc, which is compiled.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// By header: its examples without white space, which the formatter arranges in its own way.
using Examples = std::map<std::string, std::string>;

void append(std::string& text, const std::string& line) {
  for (const char c : line) {
    if (c != ' ') text += c;
  }
}

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
}

// An example is indented by four spaces more than the text around it, in a comment of three slashes.
std::vector<std::string> examples_of(const fs::path& header) {
  std::vector<std::string> lines;
  std::ifstream text(header);
  bool after_empty = false;
  for (std::string line; std::getline(text, line);) {
    line = trimmed(line);
    const bool is_example = line.starts_with("///     ") && (after_empty || (!lines.empty() && !lines.back().empty()));
    if (is_example) {
      lines.push_back(trimmed(line.substr(3)));
    } else if (!lines.empty() && !lines.back().empty()) {
      lines.emplace_back();
    }
    after_empty = line == "///";
  }
  return lines;
}

// JSON, tables and drawings are no code.
bool is_code(const std::string& header) {
  return header != "cohort/provider/failure_type.h" && header != "cohort/store/chain_task.h" &&
         header != "cohort/chain/task_json.h" && !header.starts_with("cohort/plugin/");
}

Examples in_headers() {
  const fs::path root = fs::path(COHORT_SOURCE_DIR) / "include";
  Examples examples;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    const std::string header = fs::relative(entry.path(), root).string();
    if (!header.ends_with(".h") || header.find("/internal/") != std::string::npos || !is_code(header)) continue;
    for (const std::string& line : examples_of(entry.path())) {
      if (!line.empty()) append(examples[header], line);
    }
  }
  return examples;
}

Examples compiled() {
  std::ifstream text(fs::path(COHORT_SOURCE_DIR) / "tests/header_examples/header_examples.cc");
  Examples examples;
  std::string header;
  for (std::string line; std::getline(text, line);) {
    line = trimmed(line);
    if (line.starts_with("// [cohort/")) {
      header = line.substr(4, line.size() - 5);
    } else if (line == "// [end]") {
      header.clear();
    } else if (!header.empty()) {
      append(examples[header], line);
    }
  }
  return examples;
}

TEST(HeaderExamplesTest, EveryExampleIsCompiled) {
  const Examples said = in_headers();
  const Examples made = compiled();

  EXPECT_GT(said.size(), 20U) << "the test looked in the wrong place";
  for (const auto& [header, text] : said) {
    const auto found = made.find(header);
    ASSERT_NE(found, made.end()) << header << " has an example; compile it in tests/header_examples";
    EXPECT_EQ(text, found->second) << header;
  }
  for (const auto& [header, text] : made) EXPECT_TRUE(said.contains(header)) << header << " has no example any more";
}

}  // namespace
