#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace cohort {

/// One event of a text/event-stream.
struct SseEvent {
  std::string id{};    ///< The last that the stream gave, with this event or before.
  std::string kind{};  ///< "message" if it did not say.
  std::string data{};
};

/// Reads a text/event-stream that comes in pieces cut anywhere.
///
///     SseReader reader;
///     reader.feed(bytes, [](const SseEvent& event) { return show(event); });
///
/// An event that is larger than the limit is left out and counted.
///
/// Thread-safety: thread-compatible.
class SseReader {
 public:
  static constexpr std::size_t kMaxEventBytes = 1U << 20U;
  using OnEvent = std::function<bool(const SseEvent&)>;  ///< False: no more of it.

  explicit SseReader(std::size_t max_event_bytes = kMaxEventBytes) : max_bytes_(max_event_bytes) {}

  /// Gives each event that is complete. False once `on_event` said so; the rest of `bytes` is not read then.
  bool feed(std::string_view bytes, const OnEvent& on_event);
  /// For a new connection: forgets what is not complete, and keeps the last id.
  void restart();

  /// Of the last event that was complete; what to send as Last-Event-ID.
  [[nodiscard]] const std::string& last_event_id() const { return last_id_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  bool end_line(const OnEvent& on_event);
  bool end_event(const OnEvent& on_event);
  void take_field(std::string_view name, std::string_view value);
  void clear_event();

  std::size_t max_bytes_;
  std::string line_;
  std::string id_;  ///< Not yet of a complete event.
  std::string last_id_;
  std::string kind_;
  std::string data_;
  bool has_data_ = false;
  bool too_large_ = false;
  bool after_return_ = false;  ///< A line feed now belongs to the line that has ended.
  bool at_start_ = true;
  std::uint64_t left_out_ = 0;
};

}  // namespace cohort
