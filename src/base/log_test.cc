#include "cohort/base/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace cohort {
namespace {

struct Collected final : LogSink {
  void write(LogLevel level, std::string_view area, std::string_view message) override {
    lines.push_back(std::string(to_string(level)) + " " + std::string(area) + ": " + std::string(message));
  }
  std::vector<std::string> lines;
};

TEST(LogTest, MakesNoTextWhileNobodyListens) {
  int made = 0;
  const auto text = [&] {
    ++made;
    return std::string("hello");
  };
  COHORT_LOG(kError, "test", text());
  EXPECT_EQ(made, 0);

  Collected sink;
  set_log_sink(&sink, LogLevel::kWarning);
  COHORT_LOG(kInfo, "test", text());
  EXPECT_EQ(made, 0);
  COHORT_LOG(kWarning, "test", text());
  set_log_sink(nullptr);
  COHORT_LOG(kError, "test", text());

  EXPECT_EQ(made, 1);
  EXPECT_EQ(sink.lines, std::vector<std::string>{"warning test: hello"});
}

}  // namespace
}  // namespace cohort
