#pragma once

#include <cstdint>

namespace cohort {

/// Registers "power-loss" with SQLite: files whose writes stay in this process's memory until they are synced, so that
/// killing the process is like cutting the power. Some writes, by the seed, reach the disk early and out of order, as
/// they would.
void register_power_loss_vfs(std::uint64_t seed);

}  // namespace cohort
