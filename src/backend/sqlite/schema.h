#pragma once

#include <string>

#include "backend/sqlite/database.h"
#include "cohort/base/result.h"

namespace cohort::sqlite {

/// kInvalid when the file is not ours, or newer. Changes nothing.
Result<void> check_owner(Database& database, const std::string& file);
/// Brings it to the version this program knows, step by step, each in its transaction.
void migrate(Database& database);

/// Counts all tasks anew into `counts`, within a transaction.
void recount(Database& database);

/// The format of rows that this program writes. A row with a higher one was written by a newer program and is left
/// alone.
[[nodiscard]] constexpr std::int64_t row_format() { return 4; }
/// The state under which `counts` has the number of dead letters.
inline constexpr int kLetterCount = 100;

/// What the newest version is.
[[nodiscard]] int schema_version();

}  // namespace cohort::sqlite
