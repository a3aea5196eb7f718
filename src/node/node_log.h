#pragma once

#include <memory>
#include <string>
#include <thread>

#include "cohort/base/log.h"
#include "cohort/base/result.h"
#include "cohort/node/node_config.h"

namespace cohort {

/// The log of a node: a line for each entry, on standard error or in a file.
///
/// An entry is handed to a thread that writes it, so no caller ever waits for a slow disk or terminal. While more than
/// kMaxPending bytes wait to be written, further entries are dropped and counted; the next line says how many.
///
/// Thread-safety: thread-safe.
class NodeLog final : public LogSink {
 public:
  static constexpr std::size_t kMaxPending = 4U << 20U;

  /// Entries without a field `node` get one with that name, if there is one. kUnavailable: the file cannot be opened.
  static Result<std::unique_ptr<NodeLog>> open(const LogConfig& config, std::string node = {});
  NodeLog(const NodeLog&) = delete;
  NodeLog& operator=(const NodeLog&) = delete;
  /// Writes what is pending, for a second at most.
  ~NodeLog() override;

  void write(LogLevel level, std::string_view area, std::string_view message,
             std::span<const LogField> fields) override;
  /// Opens the file anew, for a program that rotates logs. Without a file nothing happens.
  void reopen();
  /// Waits until everything is written, for so long at most.
  void flush(Duration patience);

 private:
  class Writer;
  NodeLog(const LogConfig& config, std::string node, int file);

  // Shared with its thread, which may be stuck in a write when this object goes.
  std::shared_ptr<Writer> writer_;
  std::thread thread_;
};

/// An entry as a line, without the line feed. kText: "TIME LEVEL AREA: message name=value …"; kJson: an object.
[[nodiscard]] std::string log_line(LogConfig::Format format, WallTime time, LogLevel level, std::string_view area,
                                   std::string_view message, std::span<const LogField> fields);

}  // namespace cohort
