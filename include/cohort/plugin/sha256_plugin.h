#pragma once

#include <memory>

#include "cohort/chain/plugin.h"

namespace cohort {

/// The step "sha256": computes the checksum of the task's file, and compares it if there is one to compare with.
///
///     {"plugin": "sha256"}
///     {"plugin": "sha256", "parameters": {"expected": "e3b0c442…"}}
///
/// Outputs: "sha256" in hexadecimal digits, "bytes". Another checksum than expected, or no file, fails the task.
[[nodiscard]] std::shared_ptr<Plugin> make_sha256_plugin();

}  // namespace cohort
