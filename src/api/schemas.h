#pragma once

#include "api/schema.h"

namespace cohort {

/// The schema of everything that the API takes and gives, by name.
[[nodiscard]] schema::Json api_schemas();

}  // namespace cohort
