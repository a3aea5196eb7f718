#include "cohort/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace cohort::internal {

void assertion_failed(const char* rule, const char* message, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken rule: %s (%s)\n", file, line, message, rule);
  std::fflush(stderr);
  std::abort();
}

}  // namespace cohort::internal
