// Three nodes on a real PostgreSQL server: nodes are killed and stopped, the server is killed, restarted and frozen,
// and each node's way to the server is cut or loses answers. Then what they wrote down is held against what they
// promised.

#include <gtest/gtest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/base/random.h"
#include "crash/ledger.h"
#include "servers/faulty_proxy.h"

extern char** environ;

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr const char* kScript = COHORT_SOURCE_DIR "/tests/servers/postgres.sh";

// `./dev soak postgres` sets it higher.
std::chrono::seconds length() {
  const char* const minutes = std::getenv("COHORT_SOAK_MINUTES");
  return minutes != nullptr ? std::chrono::seconds(60 * std::atoi(minutes)) : 120s;
}

pid_t start(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  EXPECT_EQ(::posix_spawn(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ), 0);
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

/// A server of this test alone.
class Server {
 public:
  explicit Server(const std::filesystem::path& folder) : folder_(folder.string()) {
    ::setenv("COHORT_OWNER", std::to_string(::getpid()).c_str(), 1);
    run("start");
    std::ifstream file(folder_ + "/url");
    std::getline(file, url_);
  }
  ~Server() { run("stop"); }
  void run(const std::string& verb) const { EXPECT_EQ(wait_for(start({kScript, verb, folder_})), 0) << verb; }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] std::uint16_t port() const {
    const std::size_t at = url_.rfind(':') + 1;
    return static_cast<std::uint16_t>(std::stoi(url_.substr(at, url_.find('/', at) - at)));
  }

 private:
  std::string folder_;
  std::string url_;
};

class PostgresCrashTest : public testing::Test {
 protected:
  struct Node {
    std::string name;
    std::unique_ptr<FaultyProxy> proxy;
    pid_t process = 0;
    std::uint64_t runs = 0;
  };

  PostgresCrashTest() {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    for (const char* name : {"one", "two", "three"}) {
      nodes_.push_back({name, std::make_unique<FaultyProxy>(server_.port())});
    }
  }
  ~PostgresCrashTest() override {
    for (Node& each : nodes_) kill(each);
  }

  void boot(Node& node, const char* mode = "run") {
    const std::string url = "postgres://cohort@127.0.0.1:" + std::to_string(node.proxy->port()) + "/postgres";
    node.process =
        start({COHORT_POSTGRES_WORKER, folder_.path().string(), node.name, url, mode, std::to_string(++node.runs)});
  }
  static void kill(Node& node) {
    if (node.process == 0) return;
    ::kill(node.process, SIGKILL);
    wait_for(node.process);
    node.process = 0;
  }

  // Any of what may happen to a cluster, for some seconds.
  void mishap(Random& random) {
    Node& node = nodes_[random.below(nodes_.size())];
    const auto some = [&](std::int64_t least, std::int64_t most) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random.between(least, most)));
    };
    switch (random.below(7)) {
      case 0:
        kill(node);
        some(0, 2000);
        boot(node);
        break;
      case 1:  // Longer than a lease.
        ::kill(node.process, SIGSTOP);
        some(1000, 7000);
        ::kill(node.process, SIGCONT);
        break;
      case 2:
        server_.run("crash");
        some(0, 500);
        server_.run("again");
        break;
      case 3: server_.run("restart"); break;
      case 4:
        server_.run("freeze");
        some(500, 5000);
        server_.run("thaw");
        break;
      case 5:
        node.proxy->set(FaultyProxy::Mode::kCut);
        some(500, 6000);
        node.proxy->heal();
        break;
      default:
        node.proxy->set(FaultyProxy::Mode::kLoseAnswers);
        some(100, 2000);
        node.proxy->heal();
    }
    some(200, 1500);
  }

  TemporaryFolder folder_;
  Server server_{folder_.path() / "server"};
  std::vector<Node> nodes_;
};

TEST_F(PostgresCrashTest, NothingIsLostAndNoCheckpointIsRepeated) {
  const char* const given = std::getenv("COHORT_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 7;
  SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed));
  Random random(seed);
  for (Node& each : nodes_) boot(each);

  const auto end = std::chrono::steady_clock::now() + length();
  while (std::chrono::steady_clock::now() < end) mishap(random);
  for (Node& each : nodes_) {  // From here on everything works, and must come to an end.
    each.proxy->heal();
    kill(each);
    boot(each, "finish");
  }
  auto store = PostgresStore::open({.url = server_.url()});
  ASSERT_TRUE(store) << store.error();
  for (std::uint64_t open = 1; open != 0;) {
    std::this_thread::sleep_for(100ms);
    const auto stats = wait<StoreStats>([&](auto done) { (*store)->stats(std::move(done)); });
    ASSERT_TRUE(stats) << stats.error();
    open = stats->tasks[0] + stats->tasks[1] + stats->tasks[2];
  }

  LedgerCheck ledger(folder_.path());
  EXPECT_EQ(ledger.check(**store), "");
  EXPECT_GT(ledger.ended_as(ChainState::kCompleted), 100) << "they have been running at all";
  RecordProperty("completed", ledger.ended_as(ChainState::kCompleted));
  std::printf("%d tasks completed\n", ledger.ended_as(ChainState::kCompleted));
}

}  // namespace
}  // namespace cohort
