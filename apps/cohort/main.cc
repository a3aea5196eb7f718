// The program: the node's verbs and the commands that speak to one.

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cohort/base/version.h"
#include "node/verbs.h"

int main(int argc, char** argv) {
  int exit_code = 0;
  cohort::Terminal terminal = cohort::standard_terminal();
  CLI::App app("Durable chains of steps, in groups with limits", "cohort");
  app.set_version_flag("--version", COHORT_VERSION);
  cohort::add_node_verbs(app, exit_code);
  cohort::add_commands(app, terminal, exit_code);
  return cohort::run_commands(app, argc, argv, terminal, exit_code);
}
