#pragma once

#include <array>
#include <stop_token>
#include <thread>

namespace cohort {

/// While it lives, the first Ctrl-C (SIGINT) asks for a stop instead of ending the process; a second one ends it.
///
/// Thread-safety: its token is thread-safe. There is one at a time.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  [[nodiscard]] bool requested() const { return stop_.stop_requested(); }

 private:
  void listen();

  std::stop_source stop_;
  std::array<int, 2> pipe_{-1, -1};
  std::thread listener_;
};

}  // namespace cohort
