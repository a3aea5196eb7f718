#pragma once

#include "cohort/base/function.h"
#include "cohort/base/result.h"

namespace cohort {

/// A callback for the outcome of a call to a port. The implementation of the port calls it exactly once, on a thread of
/// its own or inside the call itself. The callback must not block.
template <class T>
using Completion = Function<void(Result<T>)>;

}  // namespace cohort
