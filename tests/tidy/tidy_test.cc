// The tree stays small and without leftovers: no stray files, no sources that nothing uses, no files that grow for
// ever.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSourceLines = 500;
constexpr std::size_t kMaxTestLines = 700;

struct SourceFile {
  std::string path;  // Relative to the root.
  std::string text;

  [[nodiscard]] std::string name() const { return fs::path(path).filename().string(); }
  [[nodiscard]] std::string stem() const { return fs::path(path).stem().string(); }
  [[nodiscard]] bool is_header() const { return path.ends_with(".h"); }
  [[nodiscard]] bool is_test() const {
    return path.starts_with("tests/") || stem().ends_with("_test") || stem().ends_with("_test_fixture") ||
           stem().find("_storm") != std::string::npos;
  }
};

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr const char* kTopFolders[] = {"src", "include", "apps", "bench", "examples", "tests", "cmake"};

std::vector<SourceFile> source_files() {
  const fs::path root = COHORT_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const char* top : kTopFolders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const bool is_source = entry.path().extension() == ".h" || entry.path().extension() == ".cc";
      if (!entry.is_regular_file() || !is_source) continue;
      files.push_back({fs::relative(entry.path(), root).string(), text_of(entry.path())});
    }
  }
  return files;
}

// All that CMake reads, as one text.
std::string build_files() {
  const fs::path root = COHORT_SOURCE_DIR;
  std::string text = text_of(root / "CMakeLists.txt");
  for (const char* top : kTopFolders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const fs::path& path = entry.path();
      if (path.filename() == "CMakeLists.txt" || path.extension() == ".cmake") text += text_of(path);
    }
  }
  return text;
}

// The files that include each header, by the header's name.
std::map<std::string, std::vector<const SourceFile*>> includers(const std::vector<SourceFile>& files) {
  static const std::regex include(R"(#\s*include\s*["<]([^">]+)[">])");
  std::map<std::string, std::vector<const SourceFile*>> found;
  for (const SourceFile& file : files) {
    for (std::sregex_iterator each(file.text.begin(), file.text.end(), include), none; each != none; ++each) {
      found[fs::path((*each)[1].str()).filename().string()].push_back(&file);
    }
  }
  return found;
}

// Some programs are named without ".cc" in a loop, and CMake finds the sources of compile_errors by itself.
bool is_built(const SourceFile& file, const std::string& build_text) {
  if (file.path.starts_with("tests/compile_errors/")) return true;
  const bool is_program = file.path.starts_with("examples/") || file.path.starts_with("tests/fuzz/");
  std::string name = is_program ? file.stem() : file.name();
  if (name.starts_with("fuzz_")) name = name.substr(std::string("fuzz_").size());
  for (std::size_t at = build_text.find(name); at != std::string::npos; at = build_text.find(name, at + 1)) {
    const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_part(build_text[at - 1])) && (end == build_text.size() || !is_part(build_text[end])))
      return true;
  }
  return false;
}

// "path: why" of every header and source that no program would miss.
std::vector<std::string> unused_files(const std::vector<SourceFile>& files, const std::set<std::string>& for_users,
                                      const std::string& build_text) {
  const auto included_by = includers(files);
  std::vector<std::string> unused;
  for (const SourceFile& file : files) {
    if (!file.is_header()) {
      if (!is_built(file, build_text)) unused.push_back(file.path + ": in no CMakeLists.txt");
      continue;
    }
    if (for_users.contains(file.path)) continue;
    const auto found = included_by.find(file.name());
    const bool is_used = found != included_by.end() && std::ranges::any_of(found->second, [&](const SourceFile* user) {
                           return file.is_test() || (!user->is_test() && user->stem() != file.stem());
                         });
    if (!is_used) unused.push_back(file.path + ": nothing but its own source and tests includes it");
  }
  return unused;
}

std::vector<std::string> too_long_files(const std::vector<SourceFile>& files) {
  std::vector<std::string> too_long;
  for (const SourceFile& file : files) {
    const auto lines = static_cast<std::size_t>(std::ranges::count(file.text, '\n'));
    const std::size_t most = file.is_test() ? kMaxTestLines : kMaxSourceLines;
    if (lines > most)
      too_long.push_back(file.path + ": " + std::to_string(lines) + " lines, at most " + std::to_string(most));
  }
  return too_long;
}

std::vector<std::string> stray_files(const std::vector<std::string>& root_files) {
  static const std::set<std::string> expected = {".clang-format",
                                                 ".clang-tidy",
                                                 ".gitignore",
                                                 "ARCHITECTURE.md",
                                                 "CHANGELOG.md",
                                                 "CMakeLists.txt",
                                                 "CMakePresets.json",
                                                 "CONTRIBUTING.md",
                                                 "Doxyfile",
                                                 "LICENSE",
                                                 "README.md",
                                                 "THIRD_PARTY.md",
                                                 "dev"};
  std::vector<std::string> stray;
  std::ranges::copy_if(root_files, std::back_inserter(stray),
                       [](const auto& each) { return !expected.contains(each); });
  return stray;
}

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& each : lines) out += each + "\n";
  return out;
}

TEST(TidyTest, TheRootHasNoStrayFiles) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(COHORT_SOURCE_DIR)) {
    if (entry.is_regular_file() && entry.path().filename() != ".git") files.push_back(entry.path().filename().string());
  }

  EXPECT_EQ(lines_of(stray_files(files)), "");
  EXPECT_EQ(stray_files({"README.md", "out.txt", "err.txt"}), (std::vector<std::string>{"out.txt", "err.txt"}));
}

TEST(TidyTest, NoFileGrowsTooLong) { EXPECT_EQ(lines_of(too_long_files(source_files())), ""); }

TEST(TidyTest, EverySourceIsUsed) {
  // Public headers that users include and Cohort's own programs do not.
  const std::set<std::string> for_users = {
      "include/cohort/base/trace_context.h",
      "include/cohort/provider/guard.h",
      "include/cohort/task/this_task.h",
      "include/cohort/testing/memory_broker.h",
      "include/cohort/testing/virtual_wall_clock.h",
  };

  EXPECT_EQ(lines_of(unused_files(source_files(), for_users, build_files())), "");
}

// "file.md: target" of each link to a file that is not there. Text in code fences is left out.
std::vector<std::string> broken_links(const fs::path& file, const std::string& text) {
  static const std::regex fence("```[^`]*```");
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  const std::string plain = std::regex_replace(text, fence, "");
  std::vector<std::string> broken;
  for (std::sregex_iterator each(plain.begin(), plain.end(), link), none; each != none; ++each) {
    const std::string target = (*each)[1];
    if (target.starts_with("http") || fs::exists(file.parent_path() / target)) continue;
    broken.push_back(file.string() + ": " + target);
  }
  return broken;
}

TEST(TidyTest, EveryLinkOfTheDocumentsLeadsSomewhere) {
  const fs::path root = COHORT_SOURCE_DIR;
  std::vector<fs::path> documents;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) documents.push_back(entry.path());
  for (const char* top : {"docs", "src", "bench", "examples"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top))
      documents.push_back(entry.path());
  }
  std::erase_if(documents, [](const fs::path& path) { return path.extension() != ".md"; });

  EXPECT_GT(documents.size(), 30U) << "the test looked in the wrong place";
  for (const fs::path& each : documents) EXPECT_EQ(lines_of(broken_links(each, text_of(each))), "");
  EXPECT_EQ(broken_links(root / "README.md", "[a](nowhere.md) [b](docs/index.md#x) ```[c](no.md)```").size(), 1U);
}

// Paths of routes are in api/ alone: server, command line and OpenAPI name a route by its enumerator.
TEST(TidyTest, NoPathOfARouteIsTypedAgain) {
  for (const SourceFile& file : source_files()) {
    const bool is_program = file.path.starts_with("src/") || file.path.starts_with("apps/");
    if (!is_program || file.path.starts_with("src/api/") || file.path.find("_test") != std::string::npos) continue;
    std::istringstream text(file.text);
    for (std::string line; std::getline(text, line);) {
      const std::size_t comment = line.find("//");
      EXPECT_EQ(line.substr(0, comment).find("\"/v1/"), std::string::npos) << file.path << ": " << line;
    }
  }
}

// A migration that read JSON could fail on one damaged row, and would have to know every format there was.
TEST(TidyTest, NoMigrationReadsJson) {
  const std::string text = text_of(fs::path(COHORT_SOURCE_DIR) / "src/backend/sqlite/schema.cc");
  const std::size_t begin = text.find("kMigrations = ");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(text.substr(begin).find("json"), std::string::npos);
}

// Files that comments of public headers name ("Example: examples/01_hello_groups.cc", "docs/concepts/chains.md").
TEST(TidyTest, EveryFileThatAHeaderNamesIsThere) {
  static const std::regex name(R"(\b((?:docs|examples)/[A-Za-z0-9_/.-]+\.(?:md|cc|yaml)))");
  int found = 0;
  for (const SourceFile& file : source_files()) {
    if (!file.path.starts_with("include/")) continue;
    for (std::sregex_iterator each(file.text.begin(), file.text.end(), name), none; each != none; ++each, ++found) {
      EXPECT_TRUE(fs::exists(fs::path(COHORT_SOURCE_DIR) / (*each)[1].str())) << file.path << ": " << (*each)[1];
    }
  }
  EXPECT_GT(found, 10);
}

TEST(TidyTest, LongFilesAndDeadFilesAreFound) {
  const auto lines = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "\n";
    return text;
  };
  const std::vector<SourceFile> files = {{"src/a/dead.h", ""},
                                         {"src/a/dead.cc", "#include \"a/dead.h\"\n"},
                                         {"src/a/dead_test.cc", "#include \"a/dead.h\"\n"},
                                         {"src/a/used.h", lines(501)},
                                         {"src/a/long_test.cc", "#include \"a/used.h\"\n" + lines(699)},
                                         {"src/a/user.cc", "#include \"a/used.h\"\n"}};

  EXPECT_EQ(lines_of(unused_files(files, {}, "dead.cc dead_test.cc long_test.cc a_user.cc")),
            "src/a/dead.h: nothing but its own source and tests includes it\nsrc/a/user.cc: in no CMakeLists.txt\n");
  EXPECT_EQ(lines_of(too_long_files(files)), "src/a/used.h: 501 lines, at most 500\n");
}

}  // namespace
