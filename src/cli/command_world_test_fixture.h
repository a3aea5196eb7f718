#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/scripted_node_test_fixture.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"

namespace cohort {

/// A scripted node, a terminal of strings, and virtual time that a pause moves on.
class CommandWorld : public testing::Test {
 protected:
  /// Runs `cohort` with these arguments; --node is added.
  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--node", node.url()});
    return run_as_is(std::move(arguments));
  }
  int run_as_is(std::vector<std::string> arguments) {
    out.str("");
    error.str("");
    arguments.insert(arguments.begin(), "cohort");
    std::vector<const char*> pointers;
    for (const std::string& each : arguments) pointers.push_back(each.c_str());
    int exit_code = -1;
    CLI::App app("Tasks in groups", "cohort");
    add_commands(app, terminal, exit_code);
    return run_commands(app, static_cast<int>(pointers.size()), pointers.data(), terminal, exit_code);
  }
  void be_terminal(int width = 100) {
    terminal.is_terminal = true;
    terminal.width = width;
  }
  [[nodiscard]] bool says(const std::string& text) const { return out.str().find(text) != std::string::npos; }
  [[nodiscard]] bool complains(const std::string& text) const { return error.str().find(text) != std::string::npos; }

  ScriptedNode node;
  std::ostringstream out;
  std::ostringstream error;
  std::istringstream in;
  VirtualClock clock;
  VirtualWallClock wall_clock{clock};  // 2026-01-01T01:00:00Z
  int pauses = 0;
  Terminal terminal{.out = out,
                    .error = error,
                    .in = &in,
                    .pause =
                        [this](std::chrono::milliseconds time) {
                          ++pauses;
                          clock.advance(time);
                        },
                    .clock = &clock,
                    .wall_clock = &wall_clock};
};

/// A folder for a test's files, gone after it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cohort-cli-XXXXXX").string();
    COHORT_ASSERT(::mkdtemp(pattern.data()) != nullptr, "a temporary folder can be made");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cohort
