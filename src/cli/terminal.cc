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

int columns_of_output() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

}  // namespace

bool colour_is_unwanted() { return !environment("NO_COLOR").empty(); }

Terminal standard_terminal() {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  return Terminal{.out = std::cout,
                  .error = std::cerr,
                  .is_terminal = is_terminal,
                  .colour = is_terminal && !colour_is_unwanted() && environment("TERM") != "dumb",
                  .width = columns_of_output(),
                  .in = &std::cin,
                  .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }};
}

}  // namespace cohort
