#include "cohort/base/log.h"

#include <gtest/gtest.h>

#include <vector>

namespace cohort {
namespace {

struct Collected final : LogSink {
  void write(LogLevel level, std::string_view area, std::string_view message,
             std::span<const LogField> fields) override {
    lines.push_back(std::string(to_string(level)) + " " + std::string(area) + ": " + std::string(message));
    for (const LogField& each : fields) lines.back() += " " + std::string(each.name) + "=" + each.value;
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

TEST(LogTest, EntriesHaveFields) {
  Collected sink;
  set_log_sink(&sink, LogLevel::kInfo);
  COHORT_LOG(kInfo, "test", "hello", {"task", std::string("t1")}, {"step", 2U});
  set_log_sink(nullptr);
  EXPECT_EQ(sink.lines, std::vector<std::string>{"info test: hello task=t1 step=2"});
}

TEST(LogTest, UrlsAreShownWithoutTheirSecrets) {
  EXPECT_EQ(without_secrets("no URL: a@b?c"), "no URL: a@b?c");
  EXPECT_EQ(without_secrets("'https://me:pass@host:1/path?token=1#x' and http://b/?k=2 failed"),
            "'https://***@host:1/path?***' and http://b/?*** failed");
  EXPECT_EQ(without_secrets("https://host/a/b"), "https://host/a/b");
  EXPECT_EQ(without_secrets("http://me:pa'ss@host/x failed"), "http://***@host/x failed");
}

TEST(LogTest, ValuesWithTheNamesOfSecretsAreNotShown) {
  EXPECT_EQ(without_secrets("exit 1: token=abc, retry"), "exit 1: token=***, retry");
  EXPECT_EQ(without_secrets(R"({"Password": "hunter2", "n": 1})"), R"({"Password": "***", "n": 1})");
  EXPECT_EQ(without_secrets("DB_PASSWORD='x y' AWS_SECRET_ACCESS_KEY=k"),
            "DB_PASSWORD='*** y' AWS_SECRET_ACCESS_KEY=***");
  EXPECT_EQ(without_secrets("> Authorization: Bearer a.b.c"), "> Authorization: ***");
  EXPECT_EQ(without_secrets("the token is old; secrets: "), "the token is old; secrets: ");
}

}  // namespace
}  // namespace cohort
