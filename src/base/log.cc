#include "cohort/base/log.h"

namespace cohort {

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "unknown";
}

namespace internal {

std::atomic<LogSink*> log_sink{nullptr};
std::atomic<LogLevel> log_level{LogLevel::kInfo};

}  // namespace internal

void set_log_sink(LogSink* sink, LogLevel level) {
  internal::log_level.store(level, std::memory_order_relaxed);
  internal::log_sink.store(sink, std::memory_order_release);
}

}  // namespace cohort
