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
#include "node/stderr_log.h"

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
};

Result<NodeConfig> config_of(const ServeOptions& options) {
  NodeConfig config;
  if (!options.config.empty()) {
    Result<NodeConfig> read = read_config(options.config);
    if (!read) return read.error();
    config = *std::move(read);
  }
  if (!options.folder.empty()) config.store.folder = options.folder;
  if (!options.name.empty()) config.name = options.name;
  if (options.port >= 0) config.admin.port = static_cast<std::uint16_t>(options.port);
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (to_string(level) == options.log_level) config.log_level = level;
  }
  return config;
}

// Every thread that is started later leaves these signals to serve().
sigset_t block_ends() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return ends;
}

// A connection is a file. The soft limit is often 1,024, for programs that use select().
void allow_many_files() {
  constexpr rlim_t kEnough = 16'384;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kEnough) return;
  files.rlim_cur = std::min(files.rlim_max, kEnough);
  setrlimit(RLIMIT_NOFILE, &files);
}

// The first signal drains; the second leaves at once: what was acknowledged is on the disk, what ran goes on from its
// last checkpoint, and children die with this process.
int wait_for_the_end(Node& node, const sigset_t& ends, Duration grace) {
  int signal = 0;
  sigwait(&ends, &signal);
  std::cerr << "stopping: up to " << format_duration(grace) << " for what runs; another signal leaves at once\n";
  std::atomic<bool> drained{false};
  std::jthread drains([&] {
    node.drain(grace);
    drained = true;
  });
  const timespec moment{.tv_sec = 0, .tv_nsec = 20'000'000};
  while (!drained) {
    if (sigtimedwait(&ends, nullptr, &moment) > 0) {
      std::cerr << "leaving at once\n";
      _exit(kFailed);
    }
  }
  return kDone;
}

void greet(const Node& node, const NodeConfig& config) {
  std::cout << "cohort " << COHORT_VERSION << ": node '" << config.name << "' on " << node.address() << "\n"
            << "  store      " << config.store.folder.string() << " (SQLite), " << config.chains.concurrency
            << " tasks at a time\n"
            << "  submit     cohort submit --group demo --step sha256 --file https://example.com/ --wait\n"
            << "  look       cohort tasks --watch, cohort groups, cohort events\n"
            << "  stop       Ctrl-C" << std::endl;
}

int serve(const ServeOptions& options) {
  static StderrLog log;
  const sigset_t ends = block_ends();
  allow_many_files();
  Result<NodeConfig> config = config_of(options);
  if (!config) return complain(config.error());
  set_log_sink(&log, config->log_level);
  auto node = Node::start(*config);
  if (!node) return complain(node.error());
  greet(**node, *config);
  return wait_for_the_end(**node, ends, config->drain_grace);
}

// All that a start would refuse, without starting anything.
int check_config(const std::string& file) {
  const Result<NodeConfig> config = read_config(file);
  if (!config) return complain({ErrorCode::kInvalid, config.error().message});
  if (const auto exec = make_exec_plugin(config->exec); !exec) return complain(exec.error());
  if (const auto http = make_http_plugin(config->http); !http) return complain(http.error());
  if (const auto files = make_file_source(config->files); !files) return complain(files.error());
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
  verb->add_option("--log-level", options->log_level, "What it says on standard error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  verb->footer(
      "Example:\n  cohort serve --folder ./cohort-data --port 7070\n\n"
      "SIGTERM or Ctrl-C: takes no more tasks, finishes or checkpoints what runs, then leaves; once more: leaves at "
      "once.");
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
