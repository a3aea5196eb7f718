// The table of layers: which folder of src/ and include/cohort/ may include which others. See ARCHITECTURE.md.

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

// Every layer may include itself. Tests may also use testing/.
const Layers& allowed() {
  static const Layers table = {
      {"base", {}},
      {"task", {"base"}},
      {"group", {"task", "base"}},
      {"provider", {"task", "base"}},
      {"step", {"provider", "task", "base"}},
      {"graph", {"step", "provider", "task", "base"}},
      {"session", {"group", "task", "base"}},
      {"store", {"task", "base"}},
      {"broker", {"task", "base"}},
      {"chain", {"step", "task", "broker", "store", "base"}},
      {"backend", {"broker", "store", "provider", "task", "base"}},
      {"api", {"base"}},
      {"plugin", {"chain", "store", "provider", "step", "task", "base"}},
      {"admin", {"api", "chain", "broker", "store", "graph", "session", "group", "provider", "step", "task", "base"}},
      {"node",
       {"admin", "api", "plugin", "chain", "backend", "broker", "store", "graph", "session", "group", "provider",
        "step", "task", "base"}},
      {"cli", {"api", "provider", "base"}},
      {"testing", {"broker", "store", "session", "graph", "step", "group", "provider", "task", "base"}},
  };
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
  return from == to || allowed().at(from).contains(to) || (is_test && to == "testing");
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
  return name.ends_with("_test.cc") || name.ends_with("_storm.h") || name.ends_with("_test_fixture.h");
}

TEST(LayersTest, EveryIncludeFollowsTheTable) {
  const fs::path root = COHORT_SOURCE_DIR;
  std::vector<Violation> violations;
  int files = 0;
  for (const fs::path& top : {root / "src", root / "include"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const fs::path relative = fs::relative(entry.path(), root);
      const std::string layer = layer_of(relative);
      ASSERT_TRUE(allowed().contains(layer)) << relative << ": '" << layer << "' is not in the table of layers";
      std::ifstream text(entry.path());
      check_text(relative.string(), layer, is_test_code(relative.filename().string()), text, violations);
      ++files;
    }
  }
  for (const Violation& each : violations) ADD_FAILURE() << each.file << " must not have: " << each.include;
  EXPECT_GT(files, 50) << "the test looked in the wrong place";
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
