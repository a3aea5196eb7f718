#pragma once

#include <string>
#include <string_view>

#include "cohort/base/error.h"

namespace cohort {

/// An error as a caller over HTTP is told it: problem+json (RFC 9457) with the ErrorCode as "code".
struct Problem {
  int status = 500;
  std::string code = "internal";
  std::string detail = {};

  [[nodiscard]] static Problem of(const Error& error);
  [[nodiscard]] std::string to_json() const;
};

/// The phrase of a status: "Not Found".
[[nodiscard]] std::string_view status_phrase(int status);
[[nodiscard]] int http_status(ErrorCode code);

}  // namespace cohort
