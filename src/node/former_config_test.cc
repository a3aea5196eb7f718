// Configurations of version 0.1 are understood, and what is out of date in them is said.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cohort/node/node_config.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(FormerConfigTest, KeysOfVersionOneAreUnderstoodWithAWarning) {
  const auto config = parse_config(R"(
chains:
  callback_timeout: 7s
store: {kind: sqlite, folder: old, synchronous: normal, max_queued: 5, max_batch: 6}
)");

  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->chains.step_timeout, 7s);
  EXPECT_EQ(config->store.sqlite.folder, "old");
  EXPECT_EQ(config->store.sqlite.synchronous, SqliteOptions::Synchronous::kNormal);
  EXPECT_EQ(config->store.sqlite.max_queued, 5U);
  EXPECT_EQ(config->store.sqlite.max_batch, 6U);
  EXPECT_EQ(config->warnings,
            (std::vector<std::string>{
                "cohort.yaml:3:3: 'callback_timeout' is called 'step_timeout' now",
                "cohort.yaml:4:9: the keys of the store belong into a section with its name now: store.sqlite"}));
}

TEST(FormerConfigTest, TodaysNamesGiveNoWarning) {
  const auto config = parse_config("chains: {step_timeout: 7s}\nstore: {sqlite: {folder: new}}\n");
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->store.sqlite.folder, "new");
  EXPECT_TRUE(config->warnings.empty());
}

TEST(FormerConfigTest, BothNamesAreAProblem) {
  const auto both = [](const char* text) { return parse_config(text).error().message; };
  EXPECT_EQ(both("chains: {step_timeout: 7s, callback_timeout: 8s}\n"),
            "cohort.yaml:1:28: 'callback_timeout' is the former name of 'step_timeout', which is there too; remove it");
  EXPECT_EQ(both("store: {sqlite: {}, folder: x}\n"), "cohort.yaml:1:21: 'folder' belongs into store.sqlite");
  EXPECT_EQ(both("store: {kind: redis}\n"),
            "cohort.yaml:1:15: store.kind: found 'redis', which this version does not have; write the section "
            "store.sqlite");
}

}  // namespace
}  // namespace cohort
