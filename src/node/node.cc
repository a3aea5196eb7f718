#include "cohort/node/node.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "admin/admin_routes.h"
#include "admin/http_server.h"
#include "admin/request_guard.h"
#include "cohort/base/log.h"
#include "cohort/base/version.h"
#include "cohort/group/group_executor.h"
#include "cohort/plugin/exec_plugin.h"
#include "cohort/plugin/file_source.h"
#include "cohort/plugin/http_plugin.h"
#include "cohort/plugin/sha256_plugin.h"
#include "node/artifact_sweeper.h"
#include "node/store_factory.h"

namespace cohort {
namespace {

constexpr std::uint32_t kDefaultConcurrency = 4;

// The longest pattern that a name begins with.
GroupLimits limits_of(const std::map<std::string, GroupLimits>& patterns, std::string_view name) {
  GroupLimits found;
  std::size_t longest = 0;
  for (const auto& [pattern, limits] : patterns) {
    const std::string_view begin = std::string_view(pattern).substr(0, pattern.size() - 1);
    if (pattern.size() > longest && name.starts_with(begin)) {
      found = limits;
      longest = pattern.size();
    }
  }
  return found;
}

GroupExecutorOptions executor_options(const NodeConfig& config) {
  GroupLimits defaults = config.group_defaults;
  if (!defaults.max_concurrency) defaults.max_concurrency = kDefaultConcurrency;
  GroupExecutorOptions options{.defaults = defaults, .global_max_in_flight = config.chains.concurrency};
  std::map<std::string, GroupLimits> patterns;
  for (const auto& [name, limits] : config.groups) {
    if (name.ends_with('*')) {
      patterns.emplace(name, limits);
    } else {
      options.groups.emplace(name, limits);
    }
  }
  options.resolver = [patterns = std::move(patterns)](std::string_view name) { return limits_of(patterns, name); };
  return options;
}

Result<void> add_built_in(const NodeConfig& config, PluginRegistry& plugins) {
  auto exec = make_exec_plugin(config.exec);
  if (!exec) return exec.error();
  auto http = make_http_plugin(config.http);
  if (!http) return http.error();
  if (auto added = plugins.add("exec", *exec); !added) return added.error();
  if (auto added = plugins.add("http", *http); !added) return added.error();
  return plugins.add("sha256", make_sha256_plugin());
}

// Descriptors that a node needs beside its connections: for the store and the log, and for each task that runs.
constexpr std::uint64_t kFilesOfNode = 64;
constexpr std::uint64_t kFilesOfTask = 10;
constexpr std::uint64_t kFewestConnections = 16;

// Fits max_connections to what the limit of open files leaves. kInvalid: it leaves too little.
Result<void> fit_connections(NodeConfig& config) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  const std::uint64_t reserved = kFilesOfNode + kFilesOfTask * config.chains.concurrency;
  const std::uint64_t needed = reserved + std::min<std::uint64_t>(kFewestConnections, config.admin.max_connections);
  if (files.rlim_cur < needed) {
    return Error{ErrorCode::kInvalid, "this process may have " + std::to_string(files.rlim_cur) +
                                          " files open; a node with chains.concurrency " +
                                          std::to_string(config.chains.concurrency) + " needs at least " +
                                          std::to_string(needed) +
                                          ". Raise the limit (ulimit -n, or LimitNOFILE of its service), or lower "
                                          "chains.concurrency"};
  }
  const std::uint64_t left = files.rlim_cur - reserved;
  if (left >= config.admin.max_connections) return {};
  COHORT_LOG(kInfo, "node", "max_connections is fitted to the limit of open files", {"max_connections", left},
             {"configured", config.admin.max_connections}, {"open_files", files.rlim_cur});
  config.admin.max_connections = static_cast<std::uint32_t>(left);
  return {};
}

void fill_in(NodeConfig& config) {
  const std::filesystem::path folder = data_folder(config.store);
  if (config.chains.work_folder.empty()) config.chains.work_folder = folder / "work";
  if (config.exec.artifacts.empty()) config.exec.artifacts = folder / "artifacts";
}

}  // namespace

class Node::Impl {
 public:
  Impl(NodeConfig config, PluginRegistry plugins) : config_(std::move(config)), plugins_(std::move(plugins)) {}
  ~Impl() { drain(Duration::zero()); }

  Result<void> start() {
    fill_in(config_);
    if (auto fits = fit_connections(config_); !fits) return fits;
    if (auto added = add_built_in(config_, plugins_); !added) return added;
    if (auto listening = listen(); !listening) return listening;  // Before anything runs.
    if (auto opened = open_ports(); !opened) return opened;
    // So no other node starts here before every program of this one has ended.
    Plugin& exec = *plugins_.find("exec");
    if (store_.lock_descriptor >= 0) {
      if (auto held = hold_until_programs_end(exec, store_.lock_descriptor); !held) return held;
    }
    if (auto started = start_chains(); !started) return started;
    serve();
    sweeper_ = std::make_unique<ArtifactSweeper>(config_.exec.artifacts, *store_.store);
    COHORT_LOG(kInfo, "node", "the node is ready", {"node", config_.name}, {"version", COHORT_VERSION},
               {"address", address()}, {"folder", store_.place}, {"concurrency", config_.chains.concurrency},
               {"groups", config_.groups.size()}, {"programs", config_.exec.programs.size()},
               {"providers", config_.http.pools.size()}, {"max_connections", config_.admin.max_connections},
               {"exec_helper", exec_helper_pid(exec)});
    return {};
  }

  void drain(Duration grace) {
    MutexLock lock(ending_);
    if (state_.load() == NodeState::kStopped) return;
    state_ = NodeState::kDraining;
    sweeper_.reset();
    if (engine_) static_cast<void>(engine_->drain(grace).await());
    if (routes_) routes_->close();
    if (server_) server_->stop();
    if (server_) COHORT_LOG(kInfo, "node", "the node has stopped", {"node", config_.name});
    state_ = NodeState::kStopped;
  }

  [[nodiscard]] ChainEngine& engine() { return *engine_; }
  [[nodiscard]] TaskStore& store() { return *store_.store; }
  [[nodiscard]] std::string store_place() const { return store_.kind + ", " + store_.place; }
  [[nodiscard]] Executor& executor() { return *executor_; }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] std::string address() const {
    const bool six = config_.admin.address.find(':') != std::string::npos;
    return "http://" + (six ? "[" + config_.admin.address + "]" : config_.admin.address) + ":" + std::to_string(port());
  }

 private:
  // Those with a name of their own, not the patterns.
  [[nodiscard]] std::vector<std::string> configured_groups() const {
    std::vector<std::string> names;
    for (const auto& [name, limits] : config_.groups) {
      if (!name.ends_with('*')) names.push_back(name);
    }
    return names;
  }

  Result<void> open_ports() {
    auto store = open_store(config_.store, "node '" + config_.name + "' (process " + std::to_string(getpid()) + ")");
    if (!store) return store.error();
    auto broker = make_broker(config_);
    if (!broker) return broker.error();
    store_ = *std::move(store);
    broker_ = *std::move(broker);
    return {};
  }

  Result<void> start_chains() {
    auto fetch = make_file_source(config_.files);
    if (!fetch) return fetch.error();
    ChainOptions options = config_.chains;
    options.node = config_.name;
    options.fetch = *std::move(fetch);
    options.check_file = make_file_check(config_.files);
    executor_ = std::make_unique<GroupExecutor>(executor_options(config_));
    engine_ = std::make_unique<ChainEngine>(*store_.store, *executor_, plugins_, std::move(options), broker_.get());
    const TaskResult<void> started = engine_->start().await();
    if (!started.ok()) return *started.error;
    state_ = NodeState::kRunning;
    return {};
  }

  Result<void> listen() {
    const AdminConfig& admin = config_.admin;
    if (!is_loopback_host(admin.address) && admin.address != "::1") {
      return Error{ErrorCode::kInvalid,
                   "a node listens on loopback only (127.0.0.0/8 or ::1), not on '" + admin.address + "'"};
    }
    auto server = HttpServer::listen({.address = admin.address,
                                      .port = admin.port,
                                      .threads = admin.threads,
                                      .max_connections = admin.max_connections,
                                      .max_body = admin.max_body,
                                      .max_header = admin.max_header,
                                      .request_timeout = admin.request_timeout,
                                      .idle_timeout = admin.idle_timeout,
                                      .write_timeout = admin.write_timeout});
    if (!server) return server.error();
    server_ = *std::move(server);
    return {};
  }

  void serve() {
    control_ = std::make_unique<NodeControl>(NodeControl{.engine = *engine_,
                                                         .store = *store_.store,
                                                         .executor = *executor_,
                                                         .state = state_,
                                                         .name = config_.name,
                                                         .store_kind = store_.kind,
                                                         .store_folder = store_.place,
                                                         .plugins = plugins_.names(),
                                                         .chains = config_.chains.templates,
                                                         .configured_groups = configured_groups(),
                                                         .concurrency = config_.chains.concurrency,
                                                         .max_event_streams = config_.admin.max_event_streams});
    routes_ = std::make_unique<AdminRoutes>(*control_);
    server_->serve(
        [this](ServerRequest request, Respond respond) { routes_->handle(std::move(request), std::move(respond)); });
  }

  // Each uses those before it, the server all of them: so it is destroyed first.
  NodeConfig config_;
  PluginRegistry plugins_;
  std::atomic<NodeState> state_{NodeState::kStarting};
  Mutex ending_;  // Held while it ends.
  OpenedStore store_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<GroupExecutor> executor_;
  std::unique_ptr<ChainEngine> engine_;
  std::unique_ptr<NodeControl> control_;
  std::unique_ptr<AdminRoutes> routes_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<ArtifactSweeper> sweeper_;
};

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Node::~Node() = default;
std::string Node::store_place() const { return impl_->store_place(); }

Result<std::unique_ptr<Node>> Node::start(NodeConfig config, PluginRegistry plugins) {
  auto impl = std::make_unique<Impl>(std::move(config), std::move(plugins));
  if (auto started = impl->start(); !started) return started.error();
  return std::unique_ptr<Node>(new Node(std::move(impl)));
}

Result<void> Node::check(NodeConfig config, PluginRegistry plugins) {
  fill_in(config);
  if (auto added = add_built_in(config, plugins); !added) return added;
  if (auto files = make_file_source(config.files); !files) return files.error();
  return cohort::check(config.chains.templates, plugins);
}

void Node::drain(Duration grace) { impl_->drain(grace); }
ChainEngine& Node::chains() { return impl_->engine(); }
TaskStore& Node::store() { return impl_->store(); }
Executor& Node::executor() { return impl_->executor(); }
std::string Node::address() const { return impl_->address(); }
std::uint16_t Node::port() const { return impl_->port(); }

}  // namespace cohort
