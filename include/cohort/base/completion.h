#pragma once

#include "cohort/base/function.h"
#include "cohort/base/result.h"

namespace cohort {

/// Called exactly once with the outcome of a call to a port, on a thread of whoever implements it or right inside the
/// call. It must not block.
template <class T>
using Completion = Function<void(Result<T>)>;

}  // namespace cohort
