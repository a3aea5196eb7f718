#include "cohort/plugin/file_source.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <stop_token>
#include <string>

#include "cohort/base/percent.h"
#include "plugin/step_test_fixture.h"
#include "provider/http/scripted_server_test_fixture.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::size_t kMost = 100'000;

// A root with files, a folder beside it with a secret, and a folder to fetch into.
class FileSourceTest : public testing::Test {
 protected:
  FileSourceTest() {
    fs::create_directories(outside());
    fs::create_directories(root() / "sub");
    place.write("outside/secret.txt", "secret");
    place.write("root/plain.txt", "plain");
    place.write("root/sub/deep.bin", "deep");
  }
  void TearDown() override { EXPECT_TRUE(keeps_files || folder.is_empty()) << "something half fetched is left"; }

  [[nodiscard]] fs::path root() const { return place.path() / "root"; }
  [[nodiscard]] fs::path outside() const { return place.path() / "outside"; }
  [[nodiscard]] std::string url(const std::string& path) const { return "file://" + (root() / path).string(); }

  FileSource make(FileSourceOptions options) {
    options.max_bytes = kMost;
    auto made = make_file_source(std::move(options));
    EXPECT_TRUE(made.ok());
    return *made;
  }
  FileSource local() { return make({.roots = {root()}, .allow_http = false}); }

  // Its bytes, or "code: message".
  std::string fetch(const FileSource& source, const std::string& reference, std::stop_token stop = {}) {
    const Result<fs::path> fetched = source(reference, folder.path(), std::move(stop));
    if (!fetched) return fetched.error().to_string();
    name = fetched->filename();
    std::string bytes = content_of(*fetched);
    EXPECT_EQ(fetched->parent_path(), folder.path());
    if (!keeps_files) fs::remove(*fetched);
    return bytes;
  }
  static ErrorCode code_of(const FileSource& source, const std::string& reference, const fs::path& into) {
    const Result<fs::path> fetched = source(reference, into, {});
    return fetched ? ErrorCode::kInternal : fetched.error().code;
  }
  ErrorCode code_of(const std::string& reference) { return code_of(local(), reference, folder.path()); }

  StepFolder place;
  StepFolder folder;
  std::string name;
  bool keeps_files = false;
};

TEST_F(FileSourceTest, CopiesAFileOfItsRoot) {
  EXPECT_EQ(fetch(local(), url("plain.txt")), "plain");
  EXPECT_EQ(name, "file.txt");
  EXPECT_EQ(fetch(local(), "file://localhost" + (root() / "sub/deep.bin").string()), "deep");
  EXPECT_EQ(name, "file.bin");
  EXPECT_EQ(fetch(local(), "FILE://" + root().string() + "//sub/./deep.bin"), "deep");
}

TEST_F(FileSourceTest, TheCopyIsTheOwnersAlone) {
  keeps_files = true;
  fetch(local(), url("plain.txt"));
  EXPECT_EQ(fs::status(folder.path() / "file.txt").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileSourceTest, OnlyAPlainEndingIsKept) {
  for (const auto& [original, copy] : {std::pair("a.tar.gz", "file.gz"),
                                       {"none", "file"},
                                       {".hidden", "file"},
                                       {"a.b%20c", "file"},
                                       {"a.", "file"},
                                       {"a.x-y", "file"}}) {
    place.write("root/" + percent_decode(original).value(), "x");
    EXPECT_EQ(fetch(local(), url(original)), "x") << original;
    EXPECT_EQ(name, copy) << original;
  }
}

TEST_F(FileSourceTest, NothingOutsideOfItsRootsIsRead) {
  EXPECT_EQ(code_of("file://" + (outside() / "secret.txt").string()), ErrorCode::kInvalid);
  EXPECT_EQ(code_of("file:///etc/passwd"), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("../outside/secret.txt")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("sub/../../outside/secret.txt")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of("file://" + root().string() + "-not/x"), ErrorCode::kInvalid);
  EXPECT_EQ(fetch(local(), url("sub/../plain.txt")), "plain");
}

TEST_F(FileSourceTest, PercentTricksDoNotHelp) {
  EXPECT_EQ(code_of(url("%2e%2e/outside/secret.txt")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("%2e%2e%2foutside%2fsecret.txt")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("..%2foutside/secret.txt")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("%252e%252e/outside/secret.txt")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(url("plain.txt%00.png")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("plain.txt%0")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("plain.txt?x")), ErrorCode::kInvalid);
  EXPECT_EQ(fetch(local(), url("%70lain.txt")), "plain");
}

TEST_F(FileSourceTest, ALinkIsFollowedOnlyWithinItsRoot) {
  fs::create_symlink("sub/deep.bin", root() / "inside");
  fs::create_symlink("../outside/secret.txt", root() / "out");
  fs::create_symlink(outside() / "secret.txt", root() / "absolute");
  fs::create_symlink(root() / "plain.txt", root() / "absolute_inside");
  fs::create_directory_symlink("../outside", root() / "folder_out");
  fs::create_symlink("loop", root() / "loop");

  EXPECT_EQ(fetch(local(), url("inside")), "deep");
  for (const char* each : {"out", "absolute", "absolute_inside", "folder_out/secret.txt", "loop"}) {
    EXPECT_EQ(code_of(url(each)), ErrorCode::kInvalid) << each;
  }
}

TEST_F(FileSourceTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo((root() / "fifo").c_str(), 0600), 0);

  EXPECT_EQ(code_of(url("fifo")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("sub")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("")), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(url("missing")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(url("plain.txt/x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(url(std::string(5000, 'n'))), ErrorCode::kInvalid);
}

TEST_F(FileSourceTest, WhatIsNeverFetchedIsRefusedBeforehand) {
  const auto check = make_file_check({.roots = {root() / ""}, .allow_http = false});
  EXPECT_TRUE(check(url("plain.txt")));
  EXPECT_TRUE(check(url("missing.txt"))) << "it may come later";
  EXPECT_TRUE(check(url("sub/../plain.txt")));
  for (const std::string& each :
       {url("../outside/secret.txt"), url("sub/../../outside/secret.txt"), url("%2e%2e/outside/x"),
        std::string("file:///etc/passwd"), std::string("file:plain.txt"), std::string("https://example.com/x"),
        std::string("ftp://example.com/x"), url("")}) {
    EXPECT_FALSE(check(each)) << each;
  }
  const auto web = make_file_check({.allow_http = true});
  EXPECT_TRUE(web("https://example.com/x"));
  EXPECT_FALSE(web("https://"));
  EXPECT_FALSE(web(url("plain.txt"))) << "there are no roots";
}

TEST_F(FileSourceTest, LinksOfTheKernelAreNotFollowed) {
  const FileSource source = make({.roots = {"/proc/self"}, .allow_http = false});
  EXPECT_EQ(code_of(source, "file:///proc/self/exe", folder.path()), ErrorCode::kInvalid);
  EXPECT_EQ(code_of(source, "file:///proc/self/root/etc/passwd", folder.path()), ErrorCode::kInvalid);
}

TEST_F(FileSourceTest, AFileThatIsLargerThanItSaysIsReadToItsEnd) {
  const FileSource source = make({.roots = {"/proc/self"}, .allow_http = false});
  EXPECT_NE(fetch(source, "file:///proc/self/status").find("Pid:"), std::string::npos);
}

TEST_F(FileSourceTest, SizesUpToTheLimitPass) {
  place.write("root/full", std::string(kMost, 'f'));
  place.write("root/more", std::string(kMost + 1, 'm'));
  place.write("root/none", "");

  EXPECT_EQ(fetch(local(), url("full")).size(), kMost);
  EXPECT_EQ(fetch(local(), url("none")), "");
  EXPECT_NE(fetch(local(), url("more")).find("invalid: the file has more than the 100000 bytes allowed"),
            std::string::npos);
}

TEST_F(FileSourceTest, NestedRootsHelpEachOther) {
  fs::create_symlink("../plain.txt", root() / "sub/up");
  const FileSource narrow = make({.roots = {root() / "sub"}, .allow_http = false});
  const FileSource both = make({.roots = {root() / "sub/", root()}, .allow_http = false});

  EXPECT_EQ(code_of(narrow, url("sub/up"), folder.path()), ErrorCode::kInvalid);
  EXPECT_EQ(fetch(both, url("sub/up")), "plain");
}

TEST_F(FileSourceTest, AFolderThatCannotBeWrittenToMayBeWritableLater) {
  EXPECT_EQ(code_of(local(), url("plain.txt"), folder.path() / "gone"), ErrorCode::kUnavailable);
}

TEST_F(FileSourceTest, EndsWhenItIsAskedTo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(fetch(local(), url("plain.txt"), stop.get_token()).starts_with("cancelled: "));
}

TEST_F(FileSourceTest, WhatIsNotAllowedIsRefusedWithWhatIs) {
  EXPECT_NE(fetch(local(), "ftp://host/x").find("'ftp:' is not fetched; this node fetches file:///…"),
            std::string::npos);
  EXPECT_NE(fetch(local(), "https://host/x").find("'https:' is not fetched"), std::string::npos);
  EXPECT_NE(fetch(make({}), "file:///etc/passwd").find("fetches http://… and https://…"), std::string::npos);
  EXPECT_NE(fetch(make({.allow_http = false}), "x").find("this node fetches no files"), std::string::npos);
  for (const char* each : {"file:/etc/passwd", "file:x", "file:", "file://", "file://host/etc/passwd"}) {
    EXPECT_EQ(code_of(each), ErrorCode::kInvalid) << each;
  }
}

TEST_F(FileSourceTest, BadOptionsAreRefused) {
  EXPECT_EQ(make_file_source({.roots = {root() / "plain.txt"}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(make_file_source({.roots = {root() / "missing"}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(make_file_source({.roots = {"relative"}}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(make_file_source({.max_bytes = 0}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(make_file_source({.timeout = 0s}).error().code, ErrorCode::kInvalid);
}

// ---- from the web

bool serve(ScriptedServer::Connection& connection, const std::string& request) {
  const std::size_t begin = request.find(' ') + 1;
  const std::string path = request.substr(begin, request.find(' ', begin) - begin);
  if (path.starts_with("/status/")) {
    connection.answer(path.substr(8) + " So", "why");
    return true;
  }
  if (path == "/size/full") connection.answer("200 OK", std::string(kMost, 'f'));
  if (path == "/size/more") connection.answer("200 OK", std::string(kMost + 1, 'm'));
  if (path == "/page.html?x=a.b") connection.answer("200 OK", "page");
  if (path == "/redirect") connection.answer("302 Found", "elsewhere", "Location: /page.html?x=a.b\r\n");
  if (path == "/half") connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  if (path == "/stall") {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    connection.fall_silent();
  }
  return !path.starts_with("/half") && !path.starts_with("/stall");
}

class WebFileSourceTest : public FileSourceTest {
 protected:
  FileSource web(Duration timeout = 1min) { return make({.allow_private = true, .timeout = timeout}); }
  ErrorCode code_of_web(const std::string& path) { return code_of(web(), server.url(path), folder.path()); }
  ScriptedServer server{serve};
};

TEST_F(WebFileSourceTest, DownloadsAFile) {
  EXPECT_EQ(fetch(web(), server.url("/page.html?x=a.b")), "page");
  EXPECT_EQ(name, "file.html");
  EXPECT_EQ(fetch(web(), server.url("/redirect")), "page");
}

TEST_F(WebFileSourceTest, SizesUpToTheLimitPass) {
  EXPECT_EQ(fetch(web(), server.url("/size/full")).size(), kMost);
  EXPECT_NE(fetch(web(), server.url("/size/more")).find("invalid: the file has more than the 100000 bytes"),
            std::string::npos);
}

TEST_F(WebFileSourceTest, StatusesDecideWhetherItIsWorthAnotherTry) {
  for (const char* each : {"404", "410"}) EXPECT_EQ(code_of_web(std::string("/status/") + each), ErrorCode::kNotFound);
  for (const char* each : {"500", "503", "429", "408", "425"}) {
    EXPECT_EQ(code_of_web(std::string("/status/") + each), ErrorCode::kUnavailable) << each;
  }
  for (const char* each : {"400", "401", "403", "304"}) {
    EXPECT_EQ(code_of_web(std::string("/status/") + each), ErrorCode::kInvalid) << each;
  }
}

TEST_F(WebFileSourceTest, ABrokenConnectionMayPass) {
  const RefusingPort nobody;
  EXPECT_EQ(code_of_web("/half"), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(web(), nobody.url(), folder.path()), ErrorCode::kUnavailable);
}

TEST_F(WebFileSourceTest, ADownloadThatTakesTooLongEnds) {
  EXPECT_EQ(code_of(web(200ms), server.url("/stall"), folder.path()), ErrorCode::kTimedOut);
}

TEST_F(WebFileSourceTest, ADownloadEndsWhenItIsAskedTo) {
  std::stop_source stop;
  const ScriptedServer asks([&](ScriptedServer::Connection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    stop.request_stop();
    connection.fall_silent();
    return false;
  });
  EXPECT_TRUE(fetch(web(), asks.url("/x"), stop.get_token()).starts_with("cancelled: "));
}

TEST_F(WebFileSourceTest, PrivateAddressesAreRefusedUnlessAllowed) {
  const FileSource careful = make({});
  const std::string port = ":" + std::to_string(server.port());
  for (const std::string host :
       {"127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "[::1]", "0"}) {
    const std::string text = fetch(careful, "http://" + host + port + "/page.html");
    EXPECT_TRUE(text.starts_with("invalid: ")) << host << ": " << text;
    EXPECT_NE(text.find("is private; "), std::string::npos) << text;
  }
  EXPECT_EQ(server.connections(), 0);
}

}  // namespace
}  // namespace cohort
