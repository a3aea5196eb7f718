#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>

#include "cohort/base/clock.h"
#include "cohort/base/wall_clock.h"

namespace cohort {

/// What a command needs of the world, so that tests can give their own.
///
/// Thread-safety: confined to the thread that runs the command.
struct Terminal {
  std::ostream& out;
  std::ostream& error;
  bool is_terminal = false;  ///< `out` is one: lines may be redrawn, questions asked, tables cut to `width`.
  bool colour = false;
  int width = 100;                                            ///< In columns; what is below 40 counts as 40.
  int height = 24;                                            ///< In lines.
  std::function<void(Terminal&)> measure = {};                ///< Sets width and height anew. Empty: they stay.
  std::istream* in = nullptr;                                 ///< Null: nobody answers, and there is no standard input.
  std::function<void(std::chrono::milliseconds)> pause = {};  ///< Empty: sleeps.
  const Clock* clock = &system_clock();
  const WallClock* wall_clock = &system_wall_clock();
};

/// The process's own: standard streams, and what the system says of them. NO_COLOR and TERM=dumb switch colours off.
[[nodiscard]] Terminal standard_terminal();

/// True where the environment has a NO_COLOR that is not empty.
[[nodiscard]] bool colour_is_unwanted();

}  // namespace cohort
