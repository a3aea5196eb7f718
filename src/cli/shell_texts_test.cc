#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cli/command_texts.h"
#include "cli/command_world_test_fixture.h"
#include "cli/commands.h"

namespace cohort {
namespace {

class ShellTexts : public testing::Test {
 protected:
  ShellTexts() { add_commands(app, terminal, exit_code); }

  // What bash offers for a line whose last word is being typed.
  std::string completed(const std::string& words) {
    const TemporaryFolder folder;
    const std::string script = folder.write("completion", bash_completion(app));
    const std::string body = "source '" + script + "'; COMP_WORDS=(" + words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cohort; echo \"${COMPREPLY[*]}\"";
    std::FILE* const bash = ::popen(("bash --norc -c '" + escaped(body) + "' 2>&1").c_str(), "r");
    std::string said;
    std::array<char, 4096> buffer{};
    while (std::fgets(buffer.data(), buffer.size(), bash) != nullptr) said += buffer.data();
    EXPECT_EQ(::pclose(bash), 0) << said;
    return said.substr(0, said.find_last_not_of('\n') + 1);
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out;
  }

  std::ostringstream out;
  std::ostringstream error;
  Terminal terminal{.out = out, .error = error};
  int exit_code = -1;
  CLI::App app{"Tasks in groups", "cohort"};
};

TEST_F(ShellTexts, BashCompletesCommandsAndOptions) {
  EXPECT_EQ(completed("cohort can"), "cancel");
  EXPECT_EQ(completed("cohort dead-letters rep"), "replay");
  EXPECT_EQ(completed("cohort tasks --wa"), "--watch");
  EXPECT_EQ(completed("cohort --json tasks --sta"), "--state");
  EXPECT_EQ(completed("cohort tasks --no"), "--node --no-colour --no-color") << "options of all commands too";
  EXPECT_EQ(completed("cohort nosuch"), "");
}

TEST_F(ShellTexts, EveryCommandHasAManPage) {
  const TemporaryFolder folder;
  const std::string to = folder.path().string();
  const char* const arguments[] = {"cohort", "man-pages", to.c_str()};

  ASSERT_EQ(run_commands(app, 3, arguments, terminal, exit_code), kExitDone) << error.str();

  for (const CLI::App* each : visible_commands(app)) {
    EXPECT_TRUE(std::filesystem::exists(folder.path() / ("cohort-" + each->get_name() + ".1"))) << each->get_name();
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "cohort-dead-letters-replay.1"));
  const std::string page = man_page(app, "cohort");
  EXPECT_TRUE(page.starts_with(".TH \"COHORT\" 1\n.SH NAME\ncohort \\- Tasks in groups\n")) << page;
  EXPECT_NE(page.find(".TP\n.B dead\\-letters\n"), std::string::npos) << page;
  EXPECT_NE(page.find(".TP\n.B \\-\\-node URL\n"), std::string::npos) << page;
}

TEST_F(ShellTexts, AFolderThatIsNotThereIsSaid) {
  const char* const arguments[] = {"cohort", "man-pages", "/nowhere/at/all"};
  EXPECT_EQ(run_commands(app, 3, arguments, terminal, exit_code), kExitRefused);
  EXPECT_NE(error.str().find("cannot write /nowhere/at/all/cohort"), std::string::npos) << error.str();
}

}  // namespace
}  // namespace cohort
