#include "node/stderr_log.h"

#include <unistd.h>

#include <string>

#include "cohort/base/text_time.h"

namespace cohort {

// In one write, so that lines of several threads stay whole.
void StderrLog::write(LogLevel level, std::string_view area, std::string_view message) {
  std::string line = format_time(std::chrono::floor<std::chrono::milliseconds>(system_wall_clock().now())) + " " +
                     std::string(to_string(level)) + " " + std::string(area) + ": " + std::string(message);
  for (char& c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F) c = ' ';
  }
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace cohort
