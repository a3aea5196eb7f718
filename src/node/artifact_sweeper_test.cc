#include "node/artifact_sweeper.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cohort/testing/memory_store.h"
#include "plugin/artifact_folder.h"

namespace cohort {
namespace {

TEST(ArtifactSweeperTest, ArtifactsGoWithTheirTask) {
  std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  MemoryStore store(system_wall_clock());
  store.submit({{.id = "known", .group = "g", .steps = {{.plugin = "p"}}}}, [](const auto&) {});
  for (const char* id : {"known", "forgotten"}) {
    std::filesystem::create_directories(folder / "out");
    std::ofstream(folder / "out/file") << id;
    ASSERT_TRUE(keep_artifacts(folder, "out", folder / "kept", id, 0, 100));
  }

  EXPECT_EQ(ArtifactSweeper::sweep(folder / "kept", store, [] { return true; }), 0U) << "it ends when it is told to";
  EXPECT_EQ(ArtifactSweeper::sweep(folder / "kept", store, [] { return false; }), 1U);

  const auto left = artifact_folders(folder / "kept");
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].task_id, "known");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cohort
