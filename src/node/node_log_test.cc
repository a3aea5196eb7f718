#include "node/node_log.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cohort/node/node_config.h"

namespace cohort {
namespace {

using Format = LogConfig::Format;

class NodeLogTest : public testing::Test {
 protected:
  NodeLogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~NodeLogTest() override { std::filesystem::remove_all(folder_); }
  static std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(NodeLogTest, LinesHaveFieldsInBothFormats) {
  const std::vector<LogField> fields = {{"task", "t 1"}, {"step", 2}, {"error", "say \"no\"\nand end"}, {"empty", ""}};
  EXPECT_EQ(log_line(Format::kText, WallTime(), LogLevel::kWarning, "chain", "it\nfailed", fields),
            "1970-01-01T00:00:00Z warning chain: it failed task=\"t 1\" step=2 error=\"say \\\"no\\\" and end\"");
  const auto json =
      nlohmann::json::parse(log_line(Format::kJson, WallTime(), LogLevel::kInfo, "chain", "it \xFF", fields));
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["task"], "t 1");
  EXPECT_EQ(json["error"], "say \"no\"\nand end");
}

TEST_F(NodeLogTest, AFileIsWrittenAndOpenedAnew) {
  const std::filesystem::path file = folder_ / "log";
  {
    auto log = NodeLog::open({.file = file}, "n7");
    ASSERT_TRUE(log) << log.error();
    const LogField boot("node", "n7/boot");
    (*log)->write(LogLevel::kInfo, "test", "zero", {&boot, 1});
    (*log)->write(LogLevel::kInfo, "test", "one", {});
    while (text_of(file).find("one") == std::string::npos) std::this_thread::yield();
    std::filesystem::rename(file, folder_ / "log.1");
    (*log)->reopen();
    while (!std::filesystem::exists(file)) std::this_thread::yield();
    (*log)->write(LogLevel::kInfo, "test", "two", {});
  }
  EXPECT_NE(text_of(file).find("two"), std::string::npos);
  EXPECT_EQ(text_of(folder_ / "log.1").find("two"), std::string::npos);
  EXPECT_NE(text_of(folder_ / "log.1").find("test: zero node=n7/boot\n"), std::string::npos);
  EXPECT_NE(text_of(folder_ / "log.1").find("test: one node=n7\n"), std::string::npos);
  EXPECT_FALSE(NodeLog::open({.file = folder_ / "no/such/folder"}));
}

// A pipe that nobody reads stands for a disk that does not answer.
TEST_F(NodeLogTest, NobodyWaitsForASlowDisk) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  auto log = NodeLog::open({.file = pipe});
  ASSERT_TRUE(log) << log.error();
  const std::string line(1000, 'x');
  for (std::size_t i = 0; i < 2 * NodeLog::kMaxPending / line.size(); ++i) {
    (*log)->write(LogLevel::kInfo, "test", line, {});
  }
  ::signal(SIGPIPE, SIG_IGN);
  log->reset();  // Does not wait for ever either.
  ::close(reader);
}

}  // namespace
}  // namespace cohort
