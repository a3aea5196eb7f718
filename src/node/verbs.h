#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds the commands that need no node: serve, check-config, backup. The chosen one runs inside parse and leaves its
/// exit code.
void add_node_verbs(CLI::App& app, int& exit_code);

}  // namespace cohort
