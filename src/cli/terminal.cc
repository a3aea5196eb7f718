#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

namespace cohort {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void measure(Terminal& terminal) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col != 0) terminal.width = size.ws_col;
  if (size.ws_row != 0) terminal.height = size.ws_row;
}

}  // namespace

bool colour_is_unwanted() { return !environment("NO_COLOR").empty(); }

Terminal standard_terminal() {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  Terminal terminal{.out = std::cout,
                    .error = std::cerr,
                    .is_terminal = is_terminal,
                    .colour = is_terminal && !colour_is_unwanted() && environment("TERM") != "dumb",
                    .measure = measure,
                    .in = &std::cin,
                    .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }};
  measure(terminal);
  return terminal;
}

}  // namespace cohort
