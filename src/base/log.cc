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

// A URL ends at white space or a quote. Only its authority and its query can hold secrets.
std::string without_secrets(std::string_view text) {
  constexpr std::string_view kEnd = " \t\r\n'\"<>";
  std::string shown;
  for (;;) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) return shown.append(text);
    const std::size_t begin = scheme + 3;
    shown.append(text.substr(0, begin));
    text.remove_prefix(begin);
    std::string_view url = text.substr(0, text.find_first_of(kEnd));
    text.remove_prefix(url.size());
    const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
      shown += "***";
      url.remove_prefix(at);
    }
    const std::size_t query = url.find('?');
    shown.append(url.substr(0, query));
    if (query != std::string_view::npos) shown += "?***";
  }
}

void set_log_sink(LogSink* sink, LogLevel level) {
  internal::log_level.store(level, std::memory_order_relaxed);
  internal::log_sink.store(sink, std::memory_order_release);
}

}  // namespace cohort
