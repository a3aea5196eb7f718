#pragma once

#include <atomic>
#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cohort {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

[[nodiscard]] std::string_view to_string(LogLevel level);

/// A named value of a log entry, such as {"task", id}. Names: task, group, step, attempt, node, and others.
struct LogField {
  LogField(std::string_view field, std::string text) : name(field), value(std::move(text)) {}
  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(text) {}
  template <std::integral T>
  LogField(std::string_view field, T number) : name(field), value(std::to_string(number)) {}

  std::string_view name;  ///< Refers to a string literal.
  std::string value;
};

/// Receives the entries of COHORT_LOG. While no sink is set, COHORT_LOG makes no entries.
///
/// Thread-safety: write() is called from any thread and must be thread-safe; it must not throw, and should not block.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view area, std::string_view message,
                     std::span<const LogField> fields) = 0;
};

/// From now on sends log entries of at least `level` to `sink`; null stops the logging. An earlier sink must stay
/// alive: threads that were about to call it may still do so.
void set_log_sink(LogSink* sink, LogLevel level = LogLevel::kInfo);

/// Makes text from outside safe to log. Replaces the following by "***": user names, passwords and queries of URLs, and
/// the values of `token=…`, `password: …` and similar names.
[[nodiscard]] std::string without_secrets(std::string_view text);

namespace internal {

extern std::atomic<LogSink*> log_sink;
extern std::atomic<LogLevel> log_level;

inline LogSink* log_sink_for(LogLevel level) {
  LogSink* sink = log_sink.load(std::memory_order_acquire);
  return sink != nullptr && level >= log_level.load(std::memory_order_relaxed) ? sink : nullptr;
}

inline void write_log(LogSink& sink, LogLevel level, std::string_view area, std::string_view message,
                      std::initializer_list<LogField> fields) {
  sink.write(level, area, message, {fields.begin(), fields.size()});
}

}  // namespace internal
}  // namespace cohort

/// Logs a message with fields. Message and fields are evaluated only if a sink takes entries of that level:
/// COHORT_LOG(kWarning, "chain", "the task failed", {"task", id}, {"step", 2}).
#define COHORT_LOG(level, area, message, ...)                                                               \
  do {                                                                                                      \
    if (auto* cohort_sink = ::cohort::internal::log_sink_for(::cohort::LogLevel::level); cohort_sink) {     \
      ::cohort::internal::write_log(*cohort_sink, ::cohort::LogLevel::level, area, message, {__VA_ARGS__}); \
    }                                                                                                       \
  } while (false)
