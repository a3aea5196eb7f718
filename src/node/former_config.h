#pragma once

#include "node/config_problems.h"
#include "node/yaml_tree.h"

namespace cohort::internal {

/// Brings a configuration of an earlier version to the names of this one, with a warning for each key that had another
/// name or place. A key that is there under both names is a problem.
void rename_former_keys(YamlNode& root, ConfigProblems& problems);

}  // namespace cohort::internal
