// `cohort tasks --watch`: what it asks the node for, and that what it draws fits the window.

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/command_world_test_fixture.h"
#include "cli/text.h"

namespace cohort {
namespace {

using nlohmann::json;

class TaskWatch : public CommandWorld {
 protected:
  // A node with two running tasks, and more others than any window holds.
  void serve_tasks(std::size_t limit) {
    const std::string query = "GET /v1/tasks?limit=" + std::to_string(limit);
    json newest = json::array();
    for (int i = 0; i < 100; ++i) newest.push_back(task(100 - i, "ready"));
    newest[1] = task(99, "processing");
    newest.erase(newest.begin() + static_cast<std::ptrdiff_t>(limit), newest.end());
    node.on(query, 200, json({{"tasks", newest}, {"cursor", "c"}}).dump());
    node.on("GET /v1/tasks?state=processing&limit=" + std::to_string(limit), 200,
            json({{"tasks", {task(99, "processing"), task(3, "processing")}}}).dump());
    node.on("GET /v1/node", 200,
            R"({"tasks": {"processing": 2, "ready": 98, "pending": 0, "completed": 7, "failed": 1, "poison": 0}})");
  }
  static json task(int number, const std::string& state) {
    return {{"id", "a-task-with-a-long-name-" + std::to_string(number)},
            {"group", "a tenant with a long name"},
            {"state", state},
            {"attempt", 1},
            {"created_at", "2026-01-01T00:55:00Z"},
            {"error", "the service answered 503 and said nothing of why it did so"},
            {"steps", {{{"plugin", "thumbnail"}}}}};
  }
  // The lines of the last frame, without what moves the cursor and clears.
  [[nodiscard]] std::vector<std::string> frame() const {
    std::string text = out.str();
    text = text.substr(text.rfind("\x1b[H") + 3);
    std::vector<std::string> lines(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\x1b') {
        while (std::isalpha(static_cast<unsigned char>(text[i])) == 0) ++i;
      } else if (text[i] == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += text[i];
      }
    }
    return lines;
  }
  void expect_fit(int width, int height) {
    be_terminal(width);
    terminal.height = height;
    serve_tasks(static_cast<std::size_t>(height - 4));

    ASSERT_EQ(run({"tasks", "--watch", "--rounds", "1"}), kExitDone) << error.str();

    const std::vector<std::string> lines = frame();
    EXPECT_EQ(lines.size(), static_cast<std::size_t>(height)) << "the window is used, and nothing scrolls";
    for (const std::string& line : lines) EXPECT_LE(display_width(line), width) << line;
    EXPECT_TRUE(lines[0].starts_with("2 running  98 ready  7 completed")) << lines[0];
    EXPECT_TRUE(lines[2].starts_with("a-task-")) << lines[2];
    EXPECT_NE(lines[2].find("processing"), std::string::npos) << lines[2];
    EXPECT_NE(lines[3].find("processing"), std::string::npos) << lines[3];
    EXPECT_EQ(lines[4].find("processing"), std::string::npos) << "a running task is listed once: " << lines[4];
    EXPECT_TRUE(lines[static_cast<std::size_t>(height) - 2].starts_with("There are more"));
  }
};

TEST_F(TaskWatch, FitsAWindowOf80Columns) { expect_fit(80, 24); }

TEST_F(TaskWatch, FitsASmallWindow) { expect_fit(60, 15); }

TEST_F(TaskWatch, FitsATinyWindow) { expect_fit(40, 8); }

TEST_F(TaskWatch, FitsAWideWindow) { expect_fit(200, 50); }

TEST_F(TaskWatch, AWindowThatIsResizedIsMeasuredAgain) {
  be_terminal(80);
  int rounds = 0;
  terminal.measure = [&](Terminal& measured) { measured.height = ++rounds == 1 ? 24 : 15; };
  serve_tasks(20);
  serve_tasks(11);

  EXPECT_EQ(run({"tasks", "--watch", "--rounds", "2"}), kExitDone) << error.str();

  EXPECT_EQ(frame().size(), 15U);
  EXPECT_EQ(pauses, 10);
}

TEST_F(TaskWatch, TheTotalsOfAGroupAreItsOwn) {
  be_terminal(80);
  node.on("GET /v1/tasks?group=g&limit=20", 200, R"({"tasks": []})");
  node.on("GET /v1/tasks?group=g&state=processing&limit=20", 200, R"({"tasks": []})");
  node.on("GET /v1/groups/g", 200, R"({"name": "g", "processing": 0, "ready": 5, "pending": 2})");

  EXPECT_EQ(run({"tasks", "--watch", "--rounds", "1", "--group", "g"}), kExitDone) << error.str();

  EXPECT_EQ(frame()[0], "0 running  5 ready  2 pending");
}

TEST_F(TaskWatch, AnInterruptEndsItAsDone) {
  serve_tasks(20);
  // The first one is caught; a second would end the process.
  bool raised = false;
  terminal.pause = [&](std::chrono::milliseconds) {
    if (!raised) ::raise(SIGINT);
    raised = true;
  };

  EXPECT_EQ(run({"tasks", "--watch"}), kExitDone);
}

}  // namespace
}  // namespace cohort
