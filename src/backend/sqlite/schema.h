#pragma once

#include <string>

#include "backend/sqlite/database.h"
#include "cohort/base/result.h"

namespace cohort::sqlite {

/// kInvalid when the file is not ours, or newer. Changes nothing.
Result<void> check_owner(Database& database, const std::string& file);
/// Brings it to the version this program knows, step by step, each in its transaction.
void migrate(Database& database);

/// What the newest version is.
[[nodiscard]] int schema_version();

}  // namespace cohort::sqlite
