#include "cohort/base/log.h"

#include <algorithm>

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

namespace {

// A URL ends at white space or a double quote (a single one may be part of it), without the punctuation of a sentence.
// Only its authority and its query can hold secrets.
std::string without_url_secrets(std::string_view text) {
  constexpr std::string_view kEnd = " \t\r\n\"<>";
  std::string shown;
  for (;;) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) return shown.append(text);
    const std::size_t begin = scheme + 3;
    shown.append(text.substr(0, begin));
    text.remove_prefix(begin);
    std::string_view url = text.substr(0, text.find_first_of(kEnd));
    while (!url.empty() && std::string_view("',.;:)]}").find(url.back()) != std::string_view::npos)
      url.remove_suffix(1);
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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool begins_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) { return a == lower(b); });
}

// Where the value of `token=…`, `"password": "…"` and the like begins, if that stands at the beginning of the text.
std::size_t secret_value_at(std::string_view text) {
  for (const std::string_view name : {"password", "passwd", "secret", "token", "api_key", "api-key", "apikey",
                                      "access_key", "private_key", "authorization", "cookie"}) {
    if (!begins_with_word(text, name)) continue;
    const std::size_t sign = text.find_first_not_of("\"' \t", name.size());
    if (sign == std::string_view::npos || (text[sign] != '=' && text[sign] != ':')) continue;
    const std::size_t value = text.find_first_not_of("\"' \t", sign + 1);
    if (value != std::string_view::npos) return value;
  }
  return std::string_view::npos;
}

std::string without_named_secrets(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t value = secret_value_at(text);
    if (value == std::string_view::npos) {
      shown += text.front();
      text.remove_prefix(1);
      continue;
    }
    shown.append(text.substr(0, value)) += "***";
    // A header's value may have several words: `Authorization: Bearer …`.
    const bool is_header = begins_with_word(text, "authorization") || begins_with_word(text, "cookie");
    text.remove_prefix(std::min(text.size(), text.find_first_of(is_header ? "\"'\r\n" : " \t\r\n\"',;&", value)));
  }
  return shown;
}

}  // namespace

std::string without_secrets(std::string_view text) { return without_named_secrets(without_url_secrets(text)); }

void set_log_sink(LogSink* sink, LogLevel level) {
  internal::log_level.store(level, std::memory_order_relaxed);
  internal::log_sink.store(sink, std::memory_order_release);
}

}  // namespace cohort
