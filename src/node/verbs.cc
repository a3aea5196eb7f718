#include "node/verbs.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/text_time.h"
#include "cohort/base/version.h"
#include "cohort/node/node.h"
#include "node/node_log.h"

namespace cohort {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int complain(const Error& error) {
  std::cerr << error.message << '\n';
  return error.code == ErrorCode::kInvalid ? kWrongUsage : kFailed;
}

struct ServeOptions {
  std::string config = {};
  std::string folder = {};
  std::string name = {};
  std::string log_level = {};
  int port = -1;
  bool accept_lost_log = false;
};

Result<NodeConfig> config_of(const ServeOptions& options) {
  NodeConfig config;
  if (!options.config.empty()) {
    Result<NodeConfig> read = read_config(options.config);
    if (!read) return read.error();
    config = *std::move(read);
  }
  if (!options.folder.empty()) config.store.sqlite.folder = options.folder;
  if (!options.name.empty()) config.name = options.name;
  config.store.sqlite.accept_lost_log = options.accept_lost_log;
  if (options.port >= 0) config.admin.port = static_cast<std::uint16_t>(options.port);
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (to_string(level) == options.log_level) config.log.level = level;
  }
  return config;
}

// Every thread that is started later leaves these signals to serve().
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// A connection is a file, and so is much of a running task. The soft limit is often 1,024, for programs that use
// select().
void allow_many_files(const NodeConfig& config) {
  const rlim_t enough = std::max<rlim_t>(16'384, 100 + 10 * config.chains.concurrency + config.admin.max_connections);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= enough) return;
  files.rlim_cur = std::min(files.rlim_max, enough);
  setrlimit(RLIMIT_NOFILE, &files);
}

void reopen(NodeLog& log) {
  log.reopen();
  COHORT_LOG(kInfo, "node", "SIGHUP: the log was opened anew");
}

// The first SIGTERM or SIGINT drains; another, a second later or more, leaves at once: what was acknowledged is on the
// disk, what ran goes on from its last checkpoint, and programs die with this process. (Terminals and service managers
// send the same signal twice in a moment.)
int wait_for_the_end(Node& node, NodeLog& log, const sigset_t& signals, Duration grace) {
  for (int signal = SIGHUP; signal == SIGHUP;) {
    if (sigwait(&signals, &signal) == 0 && signal == SIGHUP) reopen(log);
  }
  const Time first = system_clock().now();
  // Through the log, which never waits for its reader.
  COHORT_LOG(kWarning, "node", "stopping: what runs has some time; another signal leaves at once",
             {"grace", format_duration(grace)});
  std::atomic<bool> drained{false};
  std::jthread drains([&] {
    node.drain(grace);
    drained = true;
  });
  const timespec moment{.tv_sec = 0, .tv_nsec = 20'000'000};
  while (!drained) {
    const int signal = sigtimedwait(&signals, nullptr, &moment);
    if (signal == SIGHUP) reopen(log);
    if (signal <= 0 || signal == SIGHUP || system_clock().now() - first < std::chrono::seconds(1)) continue;
    COHORT_LOG(kWarning, "node", "leaving at once");
    log.flush(std::chrono::milliseconds(200));
    _exit(kFailed);
  }
  return kDone;
}

void greet(const Node& node, const NodeConfig& config) {
  std::cout << "cohort " << COHORT_VERSION << ": node '" << config.name << "' on " << node.address() << "\n"
            << "  store      " << node.store_place() << "; " << config.chains.concurrency << " tasks at a time\n"
            << "  submit     cohort submit --group demo --step sha256 --file https://example.com/ --wait\n"
            << "  look       cohort tasks --watch, cohort groups, cohort events\n"
            << "  stop       Ctrl-C" << std::endl;
}

int serve(const ServeOptions& options) {
  const sigset_t signals = block_signals();
  Result<NodeConfig> config = config_of(options);
  if (!config) return complain(config.error());
  allow_many_files(*config);
  Result<std::unique_ptr<NodeLog>> log = NodeLog::open(config->log, config->name);
  if (!log) return complain(log.error());
  set_log_sink(log->get(), config->log.level);
  COHORT_LOG(kInfo, "node", "the node starts", {"node", config->name}, {"version", COHORT_VERSION},
             {"config", options.config.empty() ? "defaults" : options.config});
  for (const std::string& each : config->warnings) {
    COHORT_LOG(kWarning, "node", "the configuration is out of date", {"place", each});
  }
  int code = kFailed;
  if (auto node = Node::start(*config)) {
    greet(**node, *config);
    code = wait_for_the_end(**node, **log, signals, config->drain_grace);
  } else {
    COHORT_LOG(kError, "node", "the node cannot start", {"error", node.error().message});
    code = complain(node.error());
  }
  set_log_sink(nullptr);
  return code;
}

// All that a start would refuse, without starting anything.
int check_config(const std::string& file) {
  const Result<NodeConfig> config = read_config(file);
  if (!config) return complain({ErrorCode::kInvalid, config.error().message});
  if (const Result<void> good = Node::check(*config); !good) return complain(good.error());
  for (const std::string& each : config->warnings) std::cout << each << "\n";
  std::cout << file << " is fine: " << config->groups.size() << " groups, " << config->exec.programs.size()
            << " programs, " << config->http.pools.size() << " providers\n";
  return kDone;
}

int backup(const std::string& folder, const std::string& to) {
  if (const Result<void> copied = SqliteStore::backup_folder(folder, to); !copied) return complain(copied.error());
  std::error_code ignored;
  std::cout << "wrote " << to << " (" << std::filesystem::file_size(to, ignored)
            << " bytes); put it as cohort.db into an empty folder to use it\n";
  return kDone;
}

void add_serve(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "Start a node");
  verb->group("The node");
  verb->add_option("-c,--config", options->config, "Configuration (cohort.yaml); without one the defaults hold")
      ->envname("COHORT_CONFIG");
  verb->add_option("--folder", options->folder, "Where its store is; made if it is not there (cohort-data)");
  verb->add_option("--port", options->port, "Port on loopback (7070); 0: any that is free")
      ->check(CLI::Range(0, 65535));
  verb->add_option("--name", options->name, "Its name among nodes");
  verb->add_flag("--accept-lost-log", options->accept_lost_log,
                 "Start although the store's write-ahead log is missing; what was only in there is lost");
  verb->add_option("--log-level", options->log_level, "Minimum level to log")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  verb->footer(
      "Example:\n  cohort serve --folder ./cohort-data --port 7070\n\n"
      "SIGTERM or Ctrl-C: takes no more tasks, finishes or checkpoints what runs, then leaves; once more, a second "
      "later: leaves at once. SIGHUP: opens the log file anew.");
  verb->callback([options, &exit_code] { exit_code = serve(*options); });
}

void add_check_config(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>("cohort.yaml");
  CLI::App* verb = app.add_subcommand("check-config", "Look whether a configuration is good, without a node");
  verb->group("The node");
  verb->add_option("file", *file, "The configuration (cohort.yaml)");
  verb->footer("Example:\n  cohort check-config /etc/cohort/cohort.yaml");
  verb->callback([file, &exit_code] { exit_code = check_config(*file); });
}

void add_backup(CLI::App& app, int& exit_code) {
  auto folder = std::make_shared<std::string>("cohort-data");
  auto to = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("backup", "Copy a node's store, also while the node is at work");
  verb->group("The node");
  verb->add_option("--folder", *folder, "The node's folder")->capture_default_str();
  verb->add_option("to", *to, "A new file")->required();
  verb->footer("Example:\n  cohort backup --folder ./cohort-data /backup/cohort-monday.db");
  verb->callback([folder, to, &exit_code] { exit_code = backup(*folder, *to); });
}

}  // namespace

void add_node_verbs(CLI::App& app, int& exit_code) {
  add_serve(app, exit_code);
  add_check_config(app, exit_code);
  add_backup(app, exit_code);
}

}  // namespace cohort
