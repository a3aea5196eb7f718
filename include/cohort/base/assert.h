#pragma once

namespace cohort::internal {

/// Prints the broken rule with its file and line to stderr, then aborts the process.
[[noreturn]] void assertion_failed(const char* rule, const char* message, const char* file, int line);

}  // namespace cohort::internal

/// Checks a rule that only a programming error can break. Active in all builds; the message names the rule.
#define COHORT_ASSERT(rule, message) \
  ((rule) ? static_cast<void>(0) : ::cohort::internal::assertion_failed(#rule, message, __FILE__, __LINE__))
