// docs/reference/ is made of the tables that the program goes by. COHORT_WRITE_REFERENCE=1 writes it anew (./dev docs).

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "api/openapi.h"
#include "cli/commands.h"
#include "cohort/node/node_config.h"
#include "node/verbs.h"
#include "plugin/step_parameters.h"

namespace cohort {
namespace {

void compare(const std::string& name, const std::string& made) {
  const std::filesystem::path path = std::filesystem::path(COHORT_SOURCE_DIR) / "docs/reference" / name;
  if (std::getenv("COHORT_WRITE_REFERENCE") != nullptr) {
    std::ofstream(path) << made;
    return;
  }
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(there, made) << path << " is not what the program says; run ./dev docs";
}

TEST(ReferenceTest, TheConfigurationIsAsItIsRead) { compare("configuration.md", config_reference()); }

TEST(ReferenceTest, TheStepsAreAsTheirParametersAreChecked) { compare("steps.md", steps_reference()); }

TEST(ReferenceTest, TheHttpApiIsAsItIsRouted) { compare("openapi.json", openapi_document()); }

TEST(ReferenceTest, TheCommandsAreAsTheyAreParsed) {
  std::ostringstream text;
  Terminal terminal{.out = text, .error = text};
  int exit_code = 0;
  CLI::App app("Durable chains of steps, in groups with limits", "cohort");
  add_node_verbs(app, exit_code);
  add_commands(app, terminal, exit_code);
  compare("commands.md", commands_reference(app));
}

TEST(ReferenceTest, TheExampleConfigurationIsGood) {
  const auto config = read_config(std::filesystem::path(COHORT_SOURCE_DIR) / "examples/file_service/cohort.yaml");
  EXPECT_TRUE(config) << config.error();
}

// The parts of the configuration that the guide shows are, put together, the example that ./dev run runs.
TEST(ReferenceTest, TheGuideShowsTheExample) {
  const auto text_of = [](const std::string& path) {
    std::ifstream file(std::filesystem::path(COHORT_SOURCE_DIR) / path);
    EXPECT_TRUE(file) << path;
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const auto append_lines = [](std::string& out, const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line[0] != '#') out += line + "\n";
    }
  };
  const std::string guide = text_of("docs/guide/file-processing-service.md");
  std::string shown;
  for (std::size_t at = guide.find("```yaml\n"); at != std::string::npos; at = guide.find("```yaml\n", at)) {
    at += std::string("```yaml\n").size();
    append_lines(shown, guide.substr(at, guide.find("```", at) - at));
  }
  std::string example;
  append_lines(example, text_of("examples/file_service/cohort.yaml"));

  EXPECT_EQ(shown, example);
}

}  // namespace
}  // namespace cohort
