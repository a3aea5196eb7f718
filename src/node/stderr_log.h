#pragma once

#include "cohort/base/log.h"

namespace cohort {

/// A line on standard error for each message: time, level, area, text.
class StderrLog final : public LogSink {
 public:
  void write(LogLevel level, std::string_view area, std::string_view message) override;
};

}  // namespace cohort
