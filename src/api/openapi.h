#pragma once

#include <string>

namespace cohort {

/// The table of routes as an OpenAPI 3.1 document.
[[nodiscard]] std::string openapi_document();

}  // namespace cohort
