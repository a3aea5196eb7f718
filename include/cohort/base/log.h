#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace cohort {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

[[nodiscard]] std::string_view to_string(LogLevel level);

/// Receives what COHORT_LOG is told. Without one nothing is even put into words.
///
/// Thread-safety: write() is called from any thread and must be thread-safe; it must not throw.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view area, std::string_view message) = 0;
};

/// Sends messages of at least `level` to `sink` from now on; null ends it. A sink must outlive its use: the earlier
/// sink may still be called by threads that were about to.
void set_log_sink(LogSink* sink, LogLevel level = LogLevel::kInfo);

namespace internal {

extern std::atomic<LogSink*> log_sink;
extern std::atomic<LogLevel> log_level;

inline LogSink* log_sink_for(LogLevel level) {
  LogSink* sink = log_sink.load(std::memory_order_acquire);
  return sink != nullptr && level >= log_level.load(std::memory_order_relaxed) ? sink : nullptr;
}

}  // namespace internal
}  // namespace cohort

/// Logs a message whose text is only made when somebody listens: COHORT_LOG(kWarning, "group", "evicted " + key).
#define COHORT_LOG(level, area, message)                                                                \
  do {                                                                                                  \
    if (auto* cohort_sink = ::cohort::internal::log_sink_for(::cohort::LogLevel::level); cohort_sink) { \
      cohort_sink->write(::cohort::LogLevel::level, area, message);                                     \
    }                                                                                                   \
  } while (false)
