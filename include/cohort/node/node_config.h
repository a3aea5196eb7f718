#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/backend/postgres/postgres_store.h"
#include "cohort/backend/sqlite/sqlite_store.h"
#include "cohort/base/log.h"
#include "cohort/base/result.h"
#include "cohort/chain/chain_options.h"
#include "cohort/plugin/exec_plugin.h"
#include "cohort/plugin/file_source.h"
#include "cohort/plugin/http_plugin.h"
#include "cohort/task/group_limits.h"

namespace cohort {

/// The HTTP side of a node.
struct AdminConfig {
  std::string address = "127.0.0.1";  ///< Loopback only: 127.0.0.0/8 or ::1.
  std::uint16_t port = 7070;          ///< 0: any free port.
  std::uint32_t threads = 2;          ///< 1 to 64.
  /// With more connections, the one that has been idle longest is closed. 1 to 65,536. A node lowers this number if the
  /// limit of open files requires it.
  std::uint32_t max_connections = 4096;
  std::uint32_t max_event_streams = 64;                 ///< Readers of events at a time. 1 to 10,000.
  std::size_t max_body = 8U << 20U;                     ///< 1 KiB to 64 MiB.
  std::size_t max_header = 16U << 10U;                  ///< 1 KiB to 1 MiB.
  Duration request_timeout = std::chrono::seconds(15);  ///< From the first byte of a request to its last.
  Duration idle_timeout = std::chrono::seconds(75);     ///< Between requests.
  Duration write_timeout = std::chrono::seconds(15);    ///< For a client to receive what the node sends.
};

/// The log of a node.
struct LogConfig {
  LogLevel level = LogLevel::kInfo;  ///< Minimum level to log.
  enum class Format : std::uint8_t { kText, kJson } format = Format::kText;
  std::filesystem::path file = {};  ///< Empty: standard error. SIGHUP reopens the file.
};

/// Where tasks are kept.
struct StoreConfig {
  SqliteOptions sqlite = {};  ///< folder, synchronous, max_queued, max_batch.
  /// If it is given, tasks are on this server, and `sqlite.folder` has only the node's own files.
  std::optional<PostgresOptions> postgres = {};
};

/// The configuration of a node: everything that `cohort.yaml` can hold. Every setting has a default.
struct NodeConfig {
  std::string name = "node";  ///< The name of the node. It must stay the same after a restart.
  LogConfig log = {};
  Duration drain_grace = std::chrono::seconds(30);  ///< How long running tasks may go on at the end.

  std::map<std::string, GroupLimits> groups = {};  ///< By name. A name that ends in `*` is a prefix.
  GroupLimits group_defaults = {};                 ///< For all other groups. max_concurrency: 4 unless set.
  ChainOptions chains = {};                        ///< concurrency, step_timeout, chain_limit, retry, …, retention.
  StoreConfig store = {};
  AdminConfig admin = {};
  ExecOptions exec = {};
  HttpPluginOptions http = {};  ///< Its pools are the section `providers`.
  FileSourceOptions files = {};

  /// Keys with former names that the file uses, each as "cohort.yaml:12:5: …".
  std::vector<std::string> warnings = {};
};

/// Reads a configuration file. kInvalid: the message has a line for each problem: "cohort.yaml:12:5: …, expected …".
[[nodiscard]] Result<NodeConfig> read_config(const std::filesystem::path& file);
/// Reads a configuration from text. `name` stands for the file name in messages.
[[nodiscard]] Result<NodeConfig> parse_config(std::string_view text, std::string_view name = "cohort.yaml");
/// The reference of all settings in Markdown, made of the table by which files are read.
[[nodiscard]] std::string config_reference();

}  // namespace cohort
