#include "cohort/plugin/exec_plugin.h"

#include <gtest/gtest.h>

#include <csignal>

#include "plugin/exec_test_fixture.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Kind = PluginResult::Kind;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using ExecPluginTest = ExecTest;

// --- what is put out

TEST_F(ExecPluginTest, OutputsAreTheObjectOnStandardOutput) {
  const PluginResult result = run_script(R"(echo '{"width": 3, "names": ["a"]}')");

  EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(result.outputs(), (json{{"width", 3}, {"names", {"a"}}}));
}

TEST_F(ExecPluginTest, NoOutputIsNoOutputs) {
  const PluginResult result = run_script("echo; echo '  '");

  EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(result.outputs(), json::object());
}

TEST_F(ExecPluginTest, OtherOutputIsAFailure) {
  const PluginResult result = run_script("echo done");

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "its output is not a JSON object")) << result.reason();
}

TEST_F(ExecPluginTest, OutputMayBeTextOrIgnored) {
  ExecProgram program = script(R"(printf 'three\nlines \377\n')");
  program.output = ExecProgram::Output::kText;
  offer(program);
  EXPECT_EQ(run().outputs(), (json{{"output", "three\nlines ?\n"}}));
  program.output = ExecProgram::Output::kIgnore;
  offer(program);
  const PluginResult ignored = run();
  EXPECT_EQ(ignored.kind(), Kind::kSuccess) << ignored.reason();
  EXPECT_TRUE(ignored.outputs().empty());
}

TEST_F(ExecPluginTest, ArtifactsOutliveTheStep) {
  ExecProgram program = script("printf abc > out/a.txt; mkdir out/deep; printf de > out/deep/b.txt; printf no > other");
  program.artifacts = "out";
  offer(program);
  const PluginResult result = run();
  ASSERT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  ASSERT_EQ(result.artifacts().size(), 2U);
  EXPECT_EQ(result.artifacts()[1].name, "deep/b.txt");
  EXPECT_EQ(result.artifacts()[1].bytes, 2U);
  EXPECT_TRUE(std::filesystem::exists(result.artifacts()[1].path));

  program.max_artifacts = 4;
  offer(program);
  EXPECT_EQ(run().kind(), Kind::kFailure);
  program.artifacts = "../out";
  EXPECT_FALSE(make_exec_plugin({.programs = {{"it", program}}, .artifacts = folder_}).ok());
}

TEST_F(ExecPluginTest, AllOutputIsReadThoughThePipeIsSmaller) {
  const PluginResult result = run_script(R"(printf '{"a": "'; head -c 200000 /dev/zero | tr '\0' x; printf '"}')");

  EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(result.outputs()["a"].get<std::string>().size(), 200'000U);
}

TEST_F(ExecPluginTest, TooMuchOutputIsAFailure) {
  ExecProgram program = script("head -c 11 /dev/zero");
  program.max_output = 10;
  offer(program);

  const PluginResult result = run();

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "put out more than 10 bytes")) << result.reason();
}

TEST_F(ExecPluginTest, OutputWithoutEndEndsTheProgram) {
  const PluginResult result = run_script("trap '' TERM; yes");

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "put out more than 262144 bytes")) << result.reason();
}

TEST_F(ExecPluginTest, TheLastLinesOfStandardErrorAreKept) {
  const PluginResult result =
      run_script(R"(for i in $(seq 3000); do echo "line $i" >&2; done; printf 'bad \377' >&2; exit 4)");

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "exited with 4: bad ?")) << result.reason();
  ASSERT_GT(lines_.size(), 2U);
  EXPECT_EQ(lines_.back(), "bad ?");
  EXPECT_EQ(lines_[lines_.size() - 2], "line 3000");
}

// --- how it ends

TEST_F(ExecPluginTest, Exit75IsTriedAgain) {
  const PluginResult result = run_script("echo 'later' >&2; exit 75");

  EXPECT_EQ(result.kind(), Kind::kRetry);
  EXPECT_TRUE(has(result.reason(), "exited with 75: later")) << result.reason();
}

TEST_F(ExecPluginTest, DeathByASignalIsTriedAgain) {
  const PluginResult result = run_script("kill -9 $$");

  EXPECT_EQ(result.kind(), Kind::kRetry);
  EXPECT_TRUE(has(result.reason(), "signal 9")) << result.reason();
}

TEST_F(ExecPluginTest, AProgramThatIsGoneIsAFailure) {
  offer(script(""));
  std::filesystem::remove(folder_ / "it.sh");

  const PluginResult result = run();

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "could not be run as '" + (folder_ / "it.sh").string() + "'")) << result.reason();
}

TEST_F(ExecPluginTest, WhatIsNoProgramIsAFailure) {
  offer({.path = write_file("text", "not a program")});

  EXPECT_EQ(run().kind(), Kind::kFailure);
}

// --- what it is given

TEST_F(ExecPluginTest, TheStepIsOnStandardInput) {
  task_.request.payload = R"({"p": 1})";
  task_.context = R"({"c": [2]})";
  task_.attempt = 3;
  offer(script(R"(cat /dev/stdin > "$OUT")"));

  EXPECT_EQ(run({{"size", 200}}).kind(), Kind::kSuccess);

  EXPECT_EQ(json::parse(written(), nullptr, false), (json{{"task_id", "task-1"},
                                                          {"group", "tenant"},
                                                          {"step", 1},
                                                          {"attempt", 3},
                                                          {"token", "task-1/0"},
                                                          {"parameters", {{"program", "it"}, {"size", 200}}},
                                                          {"payload", {{"p", 1}}},
                                                          {"context", {{"c", {2}}}},
                                                          {"file", nullptr}}));
}

TEST_F(ExecPluginTest, StandardInputNeedNotBeRead) {
  task_.request.payload = json(std::string(1 << 20, 'x')).dump();

  EXPECT_EQ(run_script("exec <&-; exit 0").kind(), Kind::kSuccess);
}

TEST_F(ExecPluginTest, AValueIsOneArgumentAndNotInterpreted) {
  ExecProgram program = script(R"(printf '%s\n' "$@" > "$OUT")");
  program.arguments = {"-n", "{parameters.text}", "--at={parameters.number}", "{file}"};
  offer(program);

  const PluginResult result =
      run({{"text", "a b; $(touch x) `id` \"'*"}, {"number", -1}}, write_file("the file", "", false));

  EXPECT_EQ(result.kind(), Kind::kSuccess) << result.reason();
  EXPECT_EQ(written(), "-n\na b; $(touch x) `id` \"'*\n--at=-1\n" + (folder_ / "the file").string() + "\n");
}

TEST_F(ExecPluginTest, AValueThatWouldBeAnOptionIsRefused) {
  ExecProgram program = script(R"(echo ran > "$OUT")");
  program.arguments = {"{parameters.text}"};
  offer(program);

  const PluginResult result = run({{"text", "--delete"}});

  EXPECT_EQ(result.kind(), Kind::kFailure);
  EXPECT_TRUE(has(result.reason(), "{parameters.text}")) << result.reason();
  EXPECT_EQ(written(), "");
}

TEST_F(ExecPluginTest, TheEnvironmentIsWhatWasConfigured) {
  ::setenv("COHORT_TEST_SECRET", "1", 1);
  ExecProgram program = script(R"(tr '\0' '\n' < /proc/$$/environ > "$OUT")");
  program.environment["HOME"] = "/home/it";
  offer(program);

  EXPECT_EQ(run({}, write_file("f", "", false)).kind(), Kind::kSuccess);
  ::unsetenv("COHORT_TEST_SECRET");

  const std::string folder = folder_.string();
  EXPECT_EQ(written(), "COHORT_ATTEMPT=1\nCOHORT_FILE=" + folder + "/f\nCOHORT_GROUP=tenant\nCOHORT_TASK_ID=task-1\n" +
                           "COHORT_TOKEN=task-1/0\nHOME=/home/it\nLANG=C.UTF-8\nOUT=" + folder + "/out\n" +
                           "PATH=/usr/local/bin:/usr/bin:/bin\n");
}

TEST_F(ExecPluginTest, NoFileOfTheNodeIsOpenInIt) {
  const FileDescriptor low(::open((folder_ / "secret").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const FileDescriptor secret(::fcntl(low.get(), F_DUPFD, 100));  // Without O_CLOEXEC.

  EXPECT_EQ(run_script(R"(ls -l /proc/self/fd/ > "$OUT")").kind(), Kind::kSuccess);

  EXPECT_FALSE(has(written(), "secret")) << written();
  EXPECT_FALSE(has(written(), "socket")) << written();
}

TEST_F(ExecPluginTest, ItBeginsInAnEmptyFolderOfItsOwn) {
  ExecProgram program = script(R"((ls -A; pwd; echo "$1") > "$OUT"; mkdir -p a/b; echo > a/b/c; chmod 500 a)");
  program.arguments = {"{folder}"};
  offer(program);
  std::filesystem::create_directory(folder_ / "run");

  EXPECT_EQ(run({}, write_file("run/f", "", false)).kind(), Kind::kSuccess);

  const std::string path = written().substr(0, written().find('\n'));
  EXPECT_EQ(written(), path + "\n" + path + "\n");
  EXPECT_EQ(std::filesystem::path(path).parent_path(), folder_ / "run");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ExecPluginTest, SignalsAreAsTheyAreByDefault) {
  struct sigaction before = {};
  struct sigaction ignored = {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, &before);

  const PluginResult result = run_script("kill -PIPE $$");
  ::sigaction(SIGPIPE, &before, nullptr);

  EXPECT_TRUE(has(result.reason(), "signal 13")) << result.reason();
}

// --- limits

TEST_F(ExecPluginTest, MemoryIsLimited) {
  const std::string body = R"(x=$(head -c 40000000 /dev/zero | tr '\0' x); echo "{\"length\": ${#x}}")";
  ExecProgram program = script(body);
  program.max_memory = 32U << 20U;
  offer(program);
  EXPECT_NE(run().kind(), Kind::kSuccess);

  const PluginResult result = run_script(body);

  EXPECT_EQ(result.outputs(), (json{{"length", 40'000'000}})) << result.reason();
}

TEST_F(ExecPluginTest, ProcessorTimeIsLimited) {
  ExecProgram program = script("while :; do :; done");
  program.cpu_time = 1ms;
  offer(program);

  const PluginResult result = run();

  EXPECT_EQ(result.kind(), Kind::kRetry);
  EXPECT_TRUE(has(result.reason(), "signal " + std::to_string(SIGXCPU))) << result.reason();
}

TEST_F(ExecPluginTest, LimitsAreThoseOfTheProgram) {
  ExecProgram program = script(R"((ulimit -p; ulimit -c) > "$OUT")");
  program.max_processes = 123;
  offer(program);

  EXPECT_EQ(run().kind(), Kind::kSuccess);

  EXPECT_EQ(written(), "123\n0\n");
}

// --- what is refused

TEST_F(ExecPluginTest, ParametersMustNameAProgram) {
  offer(script(""));

  EXPECT_TRUE(plugin_->check({{"program", "it"}, {"more", 1}}).ok());
  EXPECT_EQ(plugin_->check({{"program", "x"}}).error().message,
            "parameters.program: there is no program 'x'; the configuration allows: it");
  EXPECT_FALSE(plugin_->check({{"program", 1}}).ok());
  EXPECT_FALSE(plugin_->check(json::object()).ok());
  EXPECT_FALSE(plugin_->check(json::array()).ok());
}

TEST_F(ExecPluginTest, ParametersMustHaveWhatArgumentsAskFor) {
  ExecProgram program = script("");
  program.arguments = {"{parameters.size}"};
  offer(program);

  EXPECT_TRUE(plugin_->check({{"program", "it"}, {"size", 1}}).ok());
  EXPECT_FALSE(plugin_->check({{"program", "it"}}).ok());
}

TEST_F(ExecPluginTest, AProgramThatCannotWorkIsRefusedAtTheStart) {
  const ExecProgram good = script("");
  const auto error_with = [&](auto change) {
    ExecProgram program = good;
    change(program);
    const auto made = make_exec_plugin({.programs = {{"it", program}}});
    if (made) return std::string();
    EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
    return made.error().message;
  };

  EXPECT_EQ(error_with([](ExecProgram&) {}), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.path = "it.sh"; }), "");
  EXPECT_NE(error_with([&](ExecProgram& it) { it.path = folder_ / "none"; }), "");
  EXPECT_NE(error_with([&](ExecProgram& it) { it.path = folder_; }), "");
  EXPECT_NE(error_with([&](ExecProgram& it) { it.path = write_file("text", "", false); }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.arguments = {"{parameter.a}"}; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.environment["A=B"] = ""; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.environment["COHORT_TOKEN"] = ""; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.max_output = 0; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.max_output = (64U << 20U) + 1; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.kill_after = 0s; }), "");
  EXPECT_NE(error_with([](ExecProgram& it) { it.cpu_time = -1s; }), "");
}

}  // namespace
}  // namespace cohort
