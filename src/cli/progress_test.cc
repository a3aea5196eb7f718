#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace cohort {
namespace {

using nlohmann::json;

json sample(const std::string& state, int step, double progress, int attempt = 1, const std::string& note = "") {
  return {{"id", "t"},
          {"state", state},
          {"steps_done", step},
          {"attempt", attempt},
          {"progress", progress},
          {"progress_note", note},
          {"steps", {{{"plugin", "sha256"}}, {{"plugin", "thumbnail"}}, {{"plugin", "upload"}}}}};
}

std::string bar(int full) {
  std::string out;
  for (int i = 0; i < 20; ++i) out += i < full ? "\xE2\x96\x88" : "\xE2\x96\x91";
  return out;
}

const std::string kTick = "\xE2\x9C\x93";
const std::string kCross = "\xE2\x9C\x97";
const std::string kGoes = "\xE2\x96\xB8";
const std::string kWaits = "\xC2\xB7";

TEST(Progress, EachStepHasItsMarkBarPercentNoteAndAttempt) {
  const auto lines = progress_lines(sample("processing", 1, 0.35, 2, "resizing"), 100, {});

  EXPECT_EQ(lines, (std::vector<std::string>{"  " + kTick + " sha256     " + bar(20) + " 100%",
                                             "  " + kGoes + " thumbnail  " + bar(7) + "  35%  resizing (attempt 2)",
                                             "  " + kWaits + " upload"}));
}

TEST(Progress, AFailedStepHasACross) {
  for (const char* state : {"failed", "expired", "poison", "cancelled"}) {
    const auto lines = progress_lines(sample(state, 1, 0.5), 100, {});
    EXPECT_EQ(lines[1], "  " + kCross + " thumbnail  " + bar(10) + "  50%");
    EXPECT_EQ(lines[2], "  " + kWaits + " upload");
  }
}

TEST(Progress, ACompletedTaskIsAllTicks) {
  for (const std::string& line : progress_lines(sample("completed", 3, 0), 100, {})) {
    EXPECT_TRUE(line.starts_with("  " + kTick)) << line;
    EXPECT_TRUE(line.ends_with("100%")) << line;
  }
}

TEST(Progress, NoLineIsWiderThanTheTerminal) {
  const json task = sample("processing", 1, 7.5, 12, std::string(200, 'n') + "\x1b[31m");
  for (int width = 40; width < 120; ++width) {
    for (const std::string& line : progress_lines(task, width, {})) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(Progress, WhatIsNoNumberIsNoProgress) {
  json task = sample("processing", 1, 0);
  task["progress"] = "much";
  EXPECT_EQ(progress_lines(task, 100, {})[1], "  " + kGoes + " thumbnail  " + bar(0) + "   0%");
  EXPECT_TRUE(progress_lines(json(), 100, {}).empty());
}

TEST(Progress, ATerminalIsRedrawnInPlace) {
  std::ostringstream out;
  ProgressView view(out, true, 100, {});
  view.show(sample("processing", 0, 0.1));
  EXPECT_EQ(out.str().find("\x1b[3A"), std::string::npos);
  out.str("");

  view.show(sample("processing", 0, 0.2));

  EXPECT_TRUE(out.str().starts_with("\x1b[3A\r\x1b[2K")) << out.str();
}

TEST(Progress, ElsewhereThereIsALineForEachChange) {
  std::ostringstream out;
  ProgressView view(out, false, 100, {});

  view.show(sample("ready", 0, 0, 0));
  view.show(sample("processing", 0, 0.5));
  view.show(sample("processing", 0, 0.5));
  view.show(sample("processing", 1, 0.25, 2, "resizing"));
  view.show(sample("completed", 3, 0));

  EXPECT_EQ(out.str(),
            "ready: step 1/3 sha256\n"
            "processing: step 1/3 sha256, 50 %\n"
            "processing: step 2/3 thumbnail, 25 %, resizing (attempt 2)\n"
            "completed\n");
}

}  // namespace
}  // namespace cohort
