#include "plugin/artifact_folder.h"

#include <gtest/gtest.h>

#include <fstream>

namespace cohort {
namespace {

class ArtifactFolderTest : public testing::Test {
 protected:
  ArtifactFolderTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    std::filesystem::create_directories(folder_ / "out/deep");
  }
  ~ArtifactFolderTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / "out" / name) << text; }
  Result<std::vector<Artifact>> keep(const std::string& id, std::uint64_t max_bytes = 100) {
    return keep_artifacts(folder_, "out", folder_ / "kept", id, 2, max_bytes);
  }

  std::filesystem::path folder_;
};

TEST_F(ArtifactFolderTest, FilesAreMovedAndLinksAreNot) {
  write("a.txt", "abc");
  write("deep/b.txt", "de");
  std::filesystem::create_symlink("/etc/passwd", folder_ / "out/link");

  const auto kept = keep("task/../1");

  ASSERT_TRUE(kept) << kept.error();
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_EQ(kept->at(0).name, "a.txt");
  EXPECT_EQ(kept->at(1).name, "deep/b.txt");
  EXPECT_EQ(kept->at(1).bytes, 2U);
  std::string text;
  std::ifstream(kept->at(0).path) >> text;
  EXPECT_EQ(text, "abc");
  const auto folders = artifact_folders(folder_ / "kept");
  ASSERT_EQ(folders.size(), 1U) << "whatever the id is made of";
  EXPECT_EQ(folders[0].task_id, "task/../1");
}

TEST_F(ArtifactFolderTest, AnEarlierAttemptIsReplaced) {
  write("a.txt", "1");
  ASSERT_TRUE(keep("t"));
  write("b.txt", "2");
  const auto kept = keep("t");
  ASSERT_EQ(kept->size(), 1U);
  EXPECT_EQ(kept->at(0).name, "b.txt");
  EXPECT_FALSE(std::filesystem::exists(kept->at(0).path.parent_path() / "a.txt"));
}

TEST_F(ArtifactFolderTest, TooMuchIsRefused) {
  write("a.txt", std::string(60, 'x'));
  write("b.txt", std::string(60, 'x'));
  EXPECT_EQ(keep("t").error().code, ErrorCode::kInvalid);
}

TEST_F(ArtifactFolderTest, AFolderThatIsALinkIsNotFollowed) {
  std::filesystem::remove_all(folder_ / "out");
  std::filesystem::create_symlink("/etc", folder_ / "out");
  EXPECT_TRUE(keep("t")->empty());
}

}  // namespace
}  // namespace cohort
