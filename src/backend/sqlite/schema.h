#pragma once

#include <string>

#include "backend/sqlite/database.h"
#include "cohort/base/result.h"

namespace cohort::sqlite {

/// Brings the file to the version this program knows, step by step, each in its transaction. kInvalid when it is not
/// ours, or newer.
Result<void> migrate(Database& database, const std::string& file);

/// What the newest version is.
[[nodiscard]] int schema_version();

}  // namespace cohort::sqlite
