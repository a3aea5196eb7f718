#include "cohort/plugin/sha256_plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <stop_token>
#include <string>

#include "plugin/sha256.h"
#include "plugin/step_test_fixture.h"

namespace cohort {
namespace {

using Json = nlohmann::json;
using Kind = PluginResult::Kind;

constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillion = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

std::string sum_of(std::string_view text) {
  Sha256 sum;
  sum.update(text);
  return sum.finish();
}

TEST(Sha256Test, KnownVectors) {
  EXPECT_EQ(sum_of(""), kEmpty);
  EXPECT_EQ(sum_of("abc"), kAbc);
  EXPECT_EQ(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sum_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
                   "pqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sum_of(std::string(1'000'000, 'a')), kMillion);
}

TEST(Sha256Test, PiecesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length : {0U, 1U, 55U, 56U, 57U, 63U, 64U, 65U, 119U, 120U, 128U, 300U}) {
    const std::string whole = text.substr(0, length);
    for (std::size_t piece : {1U, 3U, 63U, 64U, 65U}) {
      Sha256 sum;
      for (std::size_t at = 0; at < length; at += piece) sum.update(std::string_view(whole).substr(at, piece));
      EXPECT_EQ(sum.finish(), sum_of(whole)) << length << " by " << piece;
    }
  }
}

class Sha256PluginTest : public testing::Test {
 protected:
  PluginResult run(const Json& parameters, const std::filesystem::path& file, std::stop_token stop = {}) {
    StepContext step(task_with(parameters), file, std::move(stop));
    PluginResult result = plugin->run(step);
    report = step.take_report();
    return result;
  }

  StepFolder folder;
  std::shared_ptr<Plugin> plugin = make_sha256_plugin();
  std::optional<StepContext::Report> report;
};

TEST_F(Sha256PluginTest, PutsOutTheSumOfTheFile) {
  const PluginResult result = run(Json::object(), folder.write("file", std::string(1'000'000, 'a')));

  EXPECT_EQ(result.kind(), Kind::kSuccess);
  EXPECT_EQ(result.outputs(), (Json{{"sha256", kMillion}, {"bytes", 1'000'000}}));
}

TEST_F(Sha256PluginTest, AnEmptyFileHasASumToo) {
  EXPECT_EQ(run(Json::object(), folder.write("file", "")).outputs(), (Json{{"sha256", kEmpty}, {"bytes", 0}}));
}

TEST_F(Sha256PluginTest, ComparesInAnyCase) {
  const auto file = folder.write("file", "abc");
  std::string upper = kAbc;
  std::ranges::transform(upper, upper.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });

  EXPECT_EQ(run({{"expected", kAbc}}, file).kind(), Kind::kSuccess);
  EXPECT_EQ(run({{"expected", upper}}, file).kind(), Kind::kSuccess);
  const PluginResult other = run({{"expected", kEmpty}}, file);
  EXPECT_EQ(other.kind(), Kind::kFailure);
  EXPECT_NE(other.reason().find(std::string("not ") + kEmpty), std::string::npos);
}

TEST_F(Sha256PluginTest, WithoutAFileItFails) {
  EXPECT_EQ(run(Json::object(), {}).kind(), Kind::kFailure);
  EXPECT_EQ(run(Json::object(), folder.path() / "gone").kind(), Kind::kRetry);
}

TEST_F(Sha256PluginTest, EndsWhenItIsAskedTo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(run(Json::object(), folder.write("file", "abc"), stop.get_token()).kind(), Kind::kRetry);
}

TEST_F(Sha256PluginTest, SaysHowFarItIs) {
  EXPECT_EQ(run(Json::object(), folder.write("file", std::string(17U << 20U, 'x'))).kind(), Kind::kSuccess);
  ASSERT_TRUE(report);
  EXPECT_NEAR(report->progress, 16.0 / 17, 0.01);
}

TEST_F(Sha256PluginTest, BadParametersAreRefused) {
  EXPECT_TRUE(plugin->check(Json::object()).ok());
  EXPECT_TRUE(plugin->check({{"expected", kAbc}}).ok());
  for (const Json& bad : {Json{{"expected", "abc"}}, Json{{"expected", 1}}, Json{{"expected", std::string(64, 'g')}},
                          Json{{"expect", kAbc}}, Json::array()}) {
    const Result<void> checked = plugin->check(bad);
    ASSERT_FALSE(checked.ok()) << bad;
    EXPECT_TRUE(checked.error().message.starts_with("parameters")) << checked.error().message;
  }
}

}  // namespace
}  // namespace cohort
