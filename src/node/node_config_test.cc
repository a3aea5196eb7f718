#include "cohort/node/node_config.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <regex>

namespace cohort {
namespace {

using namespace std::chrono_literals;

/// What is wrong with a text; "" when nothing is.
std::string problems(const std::string& text) {
  const Result<NodeConfig> config = parse_config(text);
  if (config) return "";
  EXPECT_EQ(config.error().code, ErrorCode::kInvalid);
  return config.error().message;
}

/// Where the first of them is.
std::string place_in(const std::string& text) {
  static const std::regex place("^cohort\\.yaml:(\\d+:\\d+): ");
  std::smatch match;
  const std::string all = problems(text);
  return std::regex_search(all, match, place) ? match[1].str() : all;
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(NodeConfigTest, AnUnknownKeyIsToldTheNearest) {
  EXPECT_EQ(problems("groups:\n  vip:\n    max_concurency: 4\n"),
            "cohort.yaml:3:5: unknown key 'max_concurency' in groups.vip; did you mean 'max_concurrency'?");
  EXPECT_EQ(problems("chain: {}\n"),
            "cohort.yaml:1:1: unknown key 'chain' at the top of the file; did you mean 'chains'?");
}

TEST(NodeConfigTest, AnUnknownKeyThatIsLikeNoneIsToldAll) {
  EXPECT_EQ(problems("groups: {a: {rate: {every: 1s}}}\n"),
            "cohort.yaml:1:21: unknown key 'every' in groups.a.rate; there are: count, period, burst");
}

TEST(NodeConfigTest, AWrongTypeIsToldWhatWasFoundAndWhatIsExpected) {
  EXPECT_EQ(problems("admin:\n  threads: [1, 2]\n"),
            "cohort.yaml:2:12: admin.threads: found a list of 2, expected a whole number from 1 to 64, such as 4");
  EXPECT_EQ(problems("chains:\n  lease:\n  retry: {}\n"),
            "cohort.yaml:2:3: chains.lease: found nothing, expected a duration from 1s to 1h, such as 30s");
  EXPECT_EQ(problems("chains: 5\n"),
            "cohort.yaml:1:9: chains: found '5', expected a section of keys and values, such as {key: value}");
  EXPECT_EQ(problems("- a\n"),
            "cohort.yaml:1:1: found a list of 1, expected a section of keys and values, such as {key: value}");
  EXPECT_EQ(
      problems("plugins: {files: {roots: /srv}}\n"),
      "cohort.yaml:1:26: plugins.files.roots: found '/srv', expected a list of 0 to 1000, each an absolute path, such "
      "as [/srv/in]");
  EXPECT_EQ(problems("store: {sqlite: {synchronous: true}}\n"),
            "cohort.yaml:1:31: store.sqlite.synchronous: found 'true', expected one of off, normal, full, such as off");
}

TEST(NodeConfigTest, OnlyTrueAndFalseAreTruthValues) {
  for (const char* word : {"on", "yes", "True", "1", "\"true\"", "~"}) {
    EXPECT_NE(problems("plugins: {http: {allow_urls: " + std::string(word) + "}}\n"), "") << word;
  }
  EXPECT_EQ(problems("plugins: {http: {allow_urls: on}}\n"),
            "cohort.yaml:1:30: plugins.http.allow_urls: found 'on', expected true or false, such as true");
  EXPECT_EQ(problems("plugins: {http: {allow_urls: false}}\n"), "");
}

TEST(NodeConfigTest, CountsArePlainDecimalNumbers) {
  EXPECT_EQ(
      problems("chains: {concurrency: \"4\"}\n"),
      "cohort.yaml:1:23: chains.concurrency: found the quoted text '4', expected a whole number from 1 to 10000, such "
      "as 4");
  for (const char* word : {"1_000", "+4", "-4", "4.0", "0x10", "010", "1e3", "four", "unlimited"}) {
    EXPECT_EQ(place_in("chains: {concurrency: " + std::string(word) + "}\n"), "1:23") << word;
  }
  EXPECT_EQ(problems("groups: {a: {max_in_flight: unlimited}}\n"), "");
}

TEST(NodeConfigTest, DurationsAndSizesHaveUnits) {
  for (const char* word : {"5", "5 s", "-5s", "nans", "1snans", "infs", "1e3s", "s", "''"}) {
    EXPECT_EQ(place_in("chains: {keep: " + std::string(word) + "}\n"), "1:16") << word;
  }
  for (const char* word : {"64KB", "64k", "1.5MiB", "KiB", "-1", "99999999999999999999", "99999999999TiB"}) {
    EXPECT_EQ(place_in("admin: {max_body: " + std::string(word) + "}\n"), "1:19") << word;
  }
  EXPECT_EQ(problems("chains: {keep: 1h30m}\nadmin: {max_body: 65536}\nretention: {tasks: 0}\n"), "");
}

TEST(NodeConfigTest, OutOfRangeIsToldTheRange) {
  EXPECT_EQ(problems("admin: {port: 65536}\n"),
            "cohort.yaml:1:15: admin.port: '65536' is out of range, expected a whole number from 0 to 65535");
  EXPECT_EQ(problems("chains: {lease: 500ms}\n"),
            "cohort.yaml:1:17: chains.lease: '500ms' is out of range, expected a duration from 1s to 1h");
  EXPECT_EQ(problems("admin: {max_header: 2MiB}\n"),
            "cohort.yaml:1:21: admin.max_header: '2MiB' is out of range, expected a size from 1KiB to 1MiB");
  for (const char* word : {"-0.1", "1.1", "nan", "inf", "1e999", "\"0.5\""}) {
    EXPECT_EQ(place_in("chains: {retry: {jitter: " + std::string(word) + "}}\n"), "1:26") << word;
  }
  EXPECT_EQ(place_in("node: {name: ''}\n"), "1:14");
  EXPECT_EQ(place_in("providers: {a: {urls: []}}\n"), "1:23");
}

TEST(NodeConfigTest, ADuplicateKeyIsToldTheLineOfTheFirst) {
  EXPECT_EQ(problems("chains:\n  keep: 1s\n  lease: 20s\n  keep: 2s\n"),
            "cohort.yaml:4:3: duplicate key 'keep'; it is in line 2 already, keep one of them");
  EXPECT_EQ(place_in("groups:\n  a: {}\n  \"a\": {}\n"), "3:3");
}

TEST(NodeConfigTest, AllProblemsAreShownInTheOrderOfTheText) {
  EXPECT_EQ(problems("retention: {tasks: x}\nchains:\n  renew_every: 9s\nadmin: {prot: 1}\nadmin: {}\n"),
            "cohort.yaml:1:20: retention.tasks: found 'x', expected a duration from 0s to 3650d, such as 30s\n"
            "cohort.yaml:3:16: chains: renew_every (9s) must be shorter than half of lease (15s), so that one lost "
            "renewal is "
            "no loss\n"
            "cohort.yaml:4:9: unknown key 'prot' in admin; did you mean 'port'?\n"
            "cohort.yaml:5:1: duplicate key 'admin'; it is in line 4 already, keep one of them");
}

TEST(NodeConfigTest, AfterFiftyProblemsTheRestIsCounted) {
  const std::string all = problems("groups:\n" + repeated("  a: 1\n", 61));

  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 50);
  EXPECT_TRUE(all.ends_with("\nand 11 more")) << all;
}

TEST(NodeConfigTest, TheLeaseOutlivesALostRenewal) {
  EXPECT_EQ(place_in("chains:\n  lease: 10s\n"), "2:10");
  EXPECT_EQ(place_in("chains: {lease: 20s, renew_every: 10s}\n"), "1:35");
  EXPECT_EQ(problems("chains: {lease: 20s, renew_every: 9s}\n"), "");
}

TEST(NodeConfigTest, TheAdminSideIsLoopbackOnly) {
  for (const char* address : {"127.0.0.1", "127.255.0.9", "\"::1\""}) {
    EXPECT_EQ(problems("admin: {address: " + std::string(address) + "}\n"), "") << address;
  }
  for (const char* address : {"0.0.0.0", "128.0.0.1", "localhost", "\"::\"", "\"::ffff:127.0.0.1\"", "127.1"}) {
    const std::string all = problems("admin: {address: " + std::string(address) + "}\n");
    EXPECT_TRUE(all.starts_with("cohort.yaml:1:18: admin.address: found ")) << all;
    EXPECT_NE(all.find("others need a token, which this version does not have"), std::string::npos) << all;
  }
}

TEST(NodeConfigTest, PoolsHaveUrls) {
  EXPECT_EQ(
      problems("providers:\n  billing: {timeout: 1s}\n"),
      "cohort.yaml:2:3: providers.billing: 'urls' is missing, expected a list of 1 to 64, each a URL that begins with "
      "http:// or https://, such as [https://a.example, https://b.example]");
  EXPECT_EQ(
      problems("providers: {b: {urls: [https://a, ftp://b]}}\n"),
      "cohort.yaml:1:35: providers.b.urls[1]: found 'ftp://b', expected a URL that begins with http:// or https://, "
      "such as https://a.example");
  for (const char* url : {"http://", "https:///path", "'http://a b'", "//a", "HTTP"}) {
    EXPECT_EQ(place_in("providers: {b: {urls: [" + std::string(url) + "]}}\n"), "1:24") << url;
  }
}

TEST(NodeConfigTest, ABreakerIsPossible) {
  EXPECT_EQ(problems("providers: {b: {urls: [http://a], breaker: {open_base: 10s, open_max: 1s}}}\n"),
            "cohort.yaml:1:44: providers.b.breaker: open_base in seconds (10) is above open_max (1)");
}

TEST(NodeConfigTest, ProgramsHaveAbsolutePathsAndPlainEnvironments) {
  const auto program = [](const std::string& rest) {
    return problems("plugins: {exec: {programs: {p: " + rest + "}}}\n");
  };

  EXPECT_EQ(
      program("{path: bin/x}"),
      "cohort.yaml:1:39: plugins.exec.programs.p.path: found 'bin/x', expected an absolute path, such as /srv/in");
  EXPECT_EQ(program("{}"),
            "cohort.yaml:1:29: plugins.exec.programs.p: 'path' is missing, expected an absolute path, such as "
            "/usr/bin/convert");
  EXPECT_EQ(
      program("{path: /x, environment: {A=B: c}}"),
      "cohort.yaml:1:57: plugins.exec.programs.p.environment: 'A=B' is not the name of a variable; use letters, digits "
      "and _");
  EXPECT_EQ(
      program("{path: /x, cpu_time: 20ms}"),
      "cohort.yaml:1:53: plugins.exec.programs.p: cpu_time (20ms) is counted in seconds, expected 0 or at least 1s");
}

TEST(NodeConfigTest, GroupNamesAreShortAndEndInAtMostOneStar) {
  EXPECT_EQ(
      problems("groups:\n  a*b: {}\n"),
      "cohort.yaml:2:3: groups: the name 'a*b' has a * that is not at its end; only there it stands for anything");
  EXPECT_EQ(place_in("groups: {a**: {}}\n"), "1:10");
  EXPECT_EQ(problems("groups: {'': {}}\n"), "cohort.yaml:1:10: groups: the name '' has to be 1 to 1024 bytes");
  EXPECT_EQ(place_in("groups:\n  ? " + std::string(1025, 'a') + "\n  : {}\n"), "2:5");
  EXPECT_EQ(problems("groups:\n  ? " + std::string(1024, 'a') + "\n  : {}\n"), "");
  EXPECT_EQ(problems("groups: {'*': {}, 'a*': {}, b: {}}\n"), "");
}

TEST(NodeConfigTest, ThereAreAtMostTenThousandGroups) {
  std::string text = "groups:\n";
  for (int i = 0; i < 10'000; ++i) text += "  g" + std::to_string(i) + ": {}\n";

  EXPECT_EQ(problems(text), "");
  EXPECT_EQ(problems(text + "  more: {}\n  and more: {}\n"),
            "cohort.yaml:10002:3: groups: more than 10000 entries; remove some");
}

TEST(NodeConfigTest, ABadPlaceholderIsReportedWithItsLine) {
  EXPECT_EQ(problems("plugins:\n  exec:\n    programs:\n      p:\n        path: /bin/true\n        arguments:\n"
                     "          - good {file}\n          - bad {fiel}\n")
                .substr(0, 16),
            "cohort.yaml:8:13");
  EXPECT_EQ(problems("chains:\n  templates:\n    t:\n      steps:\n        - plugin: exec\n          parameters:\n"
                     "            list: [a, '${width}']\n"),
            "cohort.yaml:7:23: chains.templates.t: '${width}' names 'width', which is no parameter of the chain");
}

TEST(NodeConfigTest, WhereAProgramAndAChainStandIsKept) {
  const auto config = parse_config(
      "plugins:\n  exec:\n    programs:\n      p: {path: /bin/true}\nchains:\n  templates:\n    t:\n      steps: "
      "[sha256]\n",
      "my.yaml");
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->exec.programs.at("p").place, "my.yaml:4:10");
  EXPECT_EQ(config->chains.templates.at("t").place, "my.yaml:8:7");
}

TEST(NodeConfigTest, NamedChainsAreRead) {
  const auto config = parse_config(
      "chains:\n  deadline: none\n  templates:\n    thumbnails:\n      description: makes small pictures\n"
      "      parameters:\n        width: {type: integer, default: 200, minimum: 1, maximum: 4000}\n"
      "        name: {one_of: [a, b]}\n"
      "      steps:\n        - sha256\n        - {plugin: exec, timeout: 5s, parameters: {program: p, size: "
      "'${width}'}}\n");
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ(config->chains.deadline, Duration::max());
  const ChainTemplate& chain = config->chains.templates.at("thumbnails");
  EXPECT_EQ(chain.parameters.at("width").initial, 200);
  EXPECT_EQ(chain.parameters.at("width").maximum, 4000);
  EXPECT_FALSE(chain.parameters.at("name").initial) << "it must be given";
  ASSERT_EQ(chain.steps.size(), 2U);
  EXPECT_EQ(chain.steps[0].plugin, "sha256");
  EXPECT_EQ(chain.steps[1].timeout, 5s);
  EXPECT_EQ(chain.steps[1].parameters, R"({"program":"p","size":"${width}"})");
}

TEST(NodeConfigTest, BrokenYamlHasAPlace) {
  EXPECT_EQ(problems("chains:\n\tlease: 5s\n"), "cohort.yaml:2:1: a tab in the indentation; use spaces");
  EXPECT_EQ(problems("chains:\n  concurrency: 4\n  \tlease: 5s\n"),
            "cohort.yaml:3:3: a tab in the indentation; use spaces");
  EXPECT_EQ(problems("chains: {lease: 5s\n"), "cohort.yaml:2:1: a { that no } closes");
  EXPECT_EQ(place_in("a: b: c\n"), "1:5");
  EXPECT_EQ(place_in("admin: {port: 1}}\n"), "1:17");
  EXPECT_EQ(place_in(","), "1:1");
  EXPECT_EQ(place_in("node: {}\n]\n"), "2:1");
}

TEST(NodeConfigTest, AQuoteThatIsNotClosedDoesNotSwallowTheRest) {
  EXPECT_EQ(problems("node:\n  name: 'x\nadmin: {port: 1}\n"), "cohort.yaml:2:9: a quote that is not closed");
  EXPECT_EQ(place_in("node:\n  name: \"x\\\"\n  log_level: info\n"), "2:9");
  EXPECT_EQ(place_in("node:\n  name: 'it''s\n"), "2:9");
  EXPECT_EQ(problems("\xEF\xBB\xBFnode: {name: 'it''s'}\n"), "");
  EXPECT_EQ(problems("node:\n  name: \"a\\\"\n    b\"\n"), "");
}

TEST(NodeConfigTest, WhatIsNotReadOfYamlIsRefusedWithItsPlace) {
  EXPECT_EQ(place_in("node: &a {name: x}\n"), "1:7");
  EXPECT_EQ(problems("node: {name: *a}\n"),
            "cohort.yaml:1:14: anchors (&) and aliases (*) are not read; write the value out, or put it in quotes");
  EXPECT_EQ(place_in("node: {name: !!str x}\n"), "1:14");
  EXPECT_EQ(place_in("node: !x {}\n"), "1:7");
  EXPECT_EQ(place_in("node: {}\n---\nnode: {}\n"), "2:1");
  EXPECT_EQ(place_in("[a]: b\n"), "1:1");
  EXPECT_EQ(place_in("node: {~: b}\n"), "1:8");
}

TEST(NodeConfigTest, TextIsUtf8WithoutControlCharacters) {
  EXPECT_EQ(place_in("node:\n  name: a\x04\n"), "2:10");
  EXPECT_EQ(place_in("node:\n  name: \xff\n"), "2:9");
  EXPECT_EQ(place_in("node:\n  name: \xed\xa0\x80\n"), "2:9");
  EXPECT_EQ(place_in("node:\n  name: \"a\\0b\"\n"), "2:9");
  EXPECT_EQ(place_in(std::string("node: {}\0", 9)), "1:9");
  EXPECT_EQ(problems("node:\r\n  name: gr\xc3\xbc\xc3\x9f\r\n"), "");
}

TEST(NodeConfigTest, TextHasLimits) {
  EXPECT_EQ(place_in(std::string((1U << 20U) + 1, ' ')), "1:1");
  EXPECT_EQ(problems(std::string(1U << 20U, '#')), "");
  EXPECT_EQ(place_in(repeated("[", 40) + repeated("]", 40)), "1:33");
  EXPECT_EQ(place_in(repeated("[", 100'000)), "1:1");
  EXPECT_EQ(place_in(repeated("- a\n", 100'001)), "100000:3");
}

TEST(NodeConfigTest, LongAndOddTextIsClippedInMessages) {
  const std::string all = problems("node: {drain_grace: \"" + std::string(500, 'x') + "\\n\"}\n");

  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 0);
  EXPECT_LT(all.size(), 250U);
}

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() : folder_(std::filesystem::temp_directory_path() / ("cohort-config-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_;
};

TEST_F(ConfigFileTest, AFileIsReadAndNamedInItsProblems) {
  const auto file = folder_ / "c.yaml";
  std::ofstream(file) << "node: {name: x}\n";
  ASSERT_TRUE(read_config(file));
  EXPECT_EQ(read_config(file)->name, "x");

  std::ofstream(file) << "nod: {}\n";
  EXPECT_EQ(read_config(file).error().message,
            file.string() + ":1:1: unknown key 'nod' at the top of the file; did you mean 'node'?");
}

TEST_F(ConfigFileTest, AFileThatIsNotThereIsToldWhatToDo) {
  const Result<NodeConfig> config = read_config(folder_ / "none.yaml");

  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(config.error().message, "there is no configuration '" + (folder_ / "none.yaml").string() +
                                        "'; check the path, write the file, or start without one for the defaults");
}

TEST_F(ConfigFileTest, AFolderIsNoFileAndAHugeFileIsRefused) {
  EXPECT_EQ(read_config(folder_).error().code, ErrorCode::kUnavailable);

  std::ofstream(folder_ / "huge.yaml") << std::string(2U << 20U, '#');
  EXPECT_EQ(read_config(folder_ / "huge.yaml").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace cohort
