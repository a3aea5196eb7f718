// The table of layers in ARCHITECTURE.md: which folder of src/ and include/cohort/ may include which others.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Layers = std::map<std::string, std::set<std::string>>;

// The table of ARCHITECTURE.md: a folder with a slash, what it is for, the layers. Every layer may include itself.
// Tests may also use testing/ and, for an executor, group/.
Layers read_table() {
  Layers table;
  std::ifstream text(fs::path(COHORT_SOURCE_DIR) / "ARCHITECTURE.md");
  static const std::regex row(R"(\| `([a-z]+)/` \|.*\|([^|]*)\|)");
  static const std::regex name("`([a-z]+)`");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::set<std::string>& may = table[match[1]];
    const std::string names = match[2];
    for (std::sregex_iterator each(names.begin(), names.end(), name), none; each != none; ++each)
      may.insert((*each)[1]);
  }
  return table;
}

const Layers& allowed() {
  static const Layers table = read_table();
  return table;
}

struct Violation {
  std::string file;
  std::string include;
};

std::string layer_of(const fs::path& relative) {
  auto part = relative.begin();
  if (*part == "include") ++part;  // include/cohort/<layer>/…
  return (++part)->string();
}

// What a quoted include names as a layer, or "".
std::string included_layer(const std::string& line) {
  static const std::regex pattern(R"(^\s*#\s*include\s*["<](?:cohort/)?([a-z_]+)/)");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return "";
  return allowed().contains(match[1]) ? match[1].str() : "";
}

bool may_include(const std::string& from, const std::string& to, bool is_test) {
  return from == to || allowed().at(from).contains(to) || (is_test && (to == "testing" || to == "group"));
}

void check_text(const std::string& file, const std::string& layer, bool is_test, std::istream& text,
                std::vector<Violation>& violations) {
  for (std::string line; std::getline(text, line);) {
    const std::string to = included_layer(line);
    if (!to.empty() && !may_include(layer, to, is_test)) violations.push_back({file, line});
  }
}

bool is_source(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cc"; }

bool is_test_code(const std::string& name) {
  return name.ends_with("_test.cc") || name.find("_storm") != std::string::npos || name.ends_with("_test_fixture.h");
}

struct SourceFile {
  fs::path path;
  std::string relative;
  std::string layer;
};

std::vector<SourceFile> source_files() {
  const fs::path root = COHORT_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const fs::path& top : {root / "src", root / "include"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const fs::path relative = fs::relative(entry.path(), root);
      files.push_back({entry.path(), relative.string(), layer_of(relative)});
    }
  }
  return files;
}

TEST(LayersTest, EveryIncludeFollowsTheTable) {
  std::vector<Violation> violations;
  const std::vector<SourceFile> files = source_files();
  for (const SourceFile& file : files) {
    ASSERT_TRUE(allowed().contains(file.layer)) << file.relative << " is in no layer of ARCHITECTURE.md";
    std::ifstream text(file.path);
    check_text(file.relative, file.layer, is_test_code(file.path.filename().string()), text, violations);
  }
  for (const Violation& each : violations) ADD_FAILURE() << each.file << " must not have: " << each.include;
  EXPECT_GT(files.size(), 50U) << "the test looked in the wrong place";
}

// The design's bounds: no table of ARCHITECTURE.md may allow more.
TEST(LayersTest, TheTableStaysWithinTheDesign) {
  const std::set<std::string> all = {"admin", "api",   "plugin",   "session", "graph",     "chain", "backend", "group",
                                     "step",  "store", "provider", "broker",  "telemetry", "task",  "base"};
  std::set<std::string> below_admin = all;
  below_admin.erase("admin");
  const Layers bounds = {
      {"node", all},
      {"cli", {"api", "provider", "base"}},
      {"admin", below_admin},
      {"plugin", {"chain", "provider", "step", "store", "task", "base"}},
      {"session", {"group", "task", "base"}},
      {"graph", {"step", "provider", "task", "base"}},
      {"chain", {"step", "task", "broker", "store", "base"}},
      {"backend", {"broker", "store", "provider", "task", "base"}},
      {"group", {"task", "base"}},
      {"step", {"provider", "task", "base"}},
      {"provider", {"task", "base"}},
      {"store", {"task", "base"}},
      {"broker", {"task", "base"}},
      {"api", {"base"}},
      {"task", {"base"}},
      {"base", {}},
      {"testing", {"broker", "store", "session", "graph", "step", "group", "provider", "task", "base"}},
  };
  for (const auto& [layer, edges] : allowed()) {
    ASSERT_TRUE(bounds.contains(layer)) << layer << " is no layer of the design";
    for (const std::string& each : edges) {
      EXPECT_TRUE(bounds.at(layer).contains(each)) << layer << "/ must never include " << each << "/";
    }
  }
}

TEST(LayersTest, EveryEdgeOfTheTableIsUsed) {
  Layers unused = allowed();
  for (const SourceFile& file : source_files()) {
    if (is_test_code(file.path.filename().string())) continue;
    std::ifstream text(file.path);
    for (std::string line; std::getline(text, line);) unused.at(file.layer).erase(included_layer(line));
  }
  for (const auto& [layer, edges] : unused) {
    for (const std::string& each : edges) {
      ADD_FAILURE() << "ARCHITECTURE.md lets " << layer << "/ include " << each
                    << "/, and no file does; remove it there";
    }
  }
}

TEST(LayersTest, AnIncludeAgainstTheTableIsFound) {
  const auto violations_of = [](const std::string& layer, const std::string& line, bool is_test) {
    std::vector<Violation> violations;
    std::istringstream text(line);
    check_text("x", layer, is_test, text, violations);
    return violations.size();
  };
  EXPECT_EQ(violations_of("base", "#include \"cohort/task/executor.h\"", false), 1U);
  EXPECT_EQ(violations_of("task", "#  include \"group/scheduler.h\"", false), 1U);
  EXPECT_EQ(violations_of("group", "#include <cohort/testing/world.h>", false), 1U);
  EXPECT_EQ(violations_of("group", "#include <cohort/testing/world.h>", true), 0U);
  EXPECT_EQ(violations_of("group", "#include \"cohort/task/executor.h\"", false), 0U);
}

TEST(LayersTest, EveryFolderSaysInAFewLinesWhatItIsFor) {
  for (const auto& [layer, unused] : allowed()) {
    const fs::path readme = fs::path(COHORT_SOURCE_DIR) / "src" / layer / "README.md";
    std::ifstream text(readme);
    ASSERT_TRUE(text) << readme << " is missing";
    int lines = 0;
    for (std::string line; std::getline(text, line);) ++lines;
    EXPECT_LE(lines, 25) << readme;
  }
}

}  // namespace
