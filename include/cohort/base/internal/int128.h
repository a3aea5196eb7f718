#pragma once

namespace cohort::internal {

/// Integers that are wide enough for a product of two 64-bit numbers, so that fixed-point time stays exact.
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

}  // namespace cohort::internal
