#pragma once

#include <memory>

#include "cohort/chain/plugin.h"

namespace cohort {

/// The step "sha256": computes the SHA-256 checksum of the task's file. Compares it with "expected" if that is given.
///
///     {"plugin": "sha256"}
///     {"plugin": "sha256", "parameters": {"expected": "e3b0c442…"}}
///
/// Outputs: "sha256" in hexadecimal digits, and "bytes". A checksum that differs from "expected" fails the task. A task
/// without a file fails too.
[[nodiscard]] std::shared_ptr<Plugin> make_sha256_plugin();

}  // namespace cohort
