#pragma once

#include <sys/types.h>

namespace exec_helper {

/// Sends a signal to every descendant of this process but those in `spared`. True: there was one, or not all processes
/// could be looked at.
bool signal_descendants(int signal, const pid_t* spared = nullptr, int spared_count = 0);

}  // namespace exec_helper
