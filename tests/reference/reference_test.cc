// docs/reference/ is made of the tables that the program goes by. COHORT_WRITE_REFERENCE=1 writes it anew (./dev docs).

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/openapi.h"
#include "cli/commands.h"
#include "cohort/node/node_config.h"
#include "node/verbs.h"

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

}  // namespace
}  // namespace cohort
