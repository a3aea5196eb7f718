#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <string>

#include "cohort/base/result.h"

namespace cohort::postgres {

/// The schema that this program makes, and the format of the rows that it writes.
[[nodiscard]] constexpr std::int64_t schema_version() { return 1; }

/// Brings the tables in `schema` to the version of this program, under an advisory lock, or checks that they have one
/// that this program can use. `version` stands for schema_version(), for tests.
///
/// kInvalid: the tables are missing and may not be made, or are too new or too old for this program.
[[nodiscard]] Result<void> prepare_schema(PGconn* connection, const std::string& schema, bool may_migrate,
                                          std::int64_t version);

/// A name as an SQL identifier.
[[nodiscard]] std::string quoted(const std::string& name);

}  // namespace cohort::postgres
