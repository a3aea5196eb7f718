#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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
  std::uint16_t port = 7070;          ///< 0: any that is free.
  std::uint32_t threads = 2;          ///< 1 to 64.
  /// Beyond it the longest idle connection is ended. 1 to 65,536; a node fits it to the limit of open files.
  std::uint32_t max_connections = 4096;
  std::uint32_t max_event_streams = 64;                 ///< Readers of events at a time. 1 to 10,000.
  std::size_t max_body = 8U << 20U;                     ///< 1 KiB to 64 MiB.
  std::size_t max_header = 16U << 10U;                  ///< 1 KiB to 1 MiB.
  Duration request_timeout = std::chrono::seconds(15);  ///< From the first byte of a request to its last.
  Duration idle_timeout = std::chrono::seconds(75);     ///< Between requests.
  Duration write_timeout = std::chrono::seconds(15);    ///< For a reader to take what it is sent.
};

/// What a node says of itself.
struct LogConfig {
  LogLevel level = LogLevel::kInfo;  ///< Minimum level to log.
  enum class Format : std::uint8_t { kText, kJson } format = Format::kText;
  std::filesystem::path file = {};  ///< Empty: standard error. SIGHUP opens it anew.
};

/// Where tasks are kept. The section that is there chooses the store.
struct StoreConfig {
  SqliteOptions sqlite = {};  ///< folder, synchronous, max_queued, max_batch.
};

/// What a node is made of: all that `cohort.yaml` can say. The defaults need no file.
struct NodeConfig {
  std::string name = "node";  ///< Its name among nodes; the same after a restart.
  LogConfig log = {};
  Duration drain_grace = std::chrono::seconds(30);  ///< For what runs, when it is told to stop.

  std::map<std::string, GroupLimits> groups = {};  ///< By name; one that ends in `*` is for all that begin so.
  GroupLimits group_defaults = {};                 ///< For the others. max_concurrency: 4 unless set.
  ChainOptions chains = {};                        ///< concurrency, step_timeout, chain_limit, retry, …, retention.
  StoreConfig store = {};
  AdminConfig admin = {};
  ExecOptions exec = {};
  HttpPluginOptions http = {};  ///< Its pools are the section `providers`.
  FileSourceOptions files = {};

  /// What reading it has found to be out of date, as "cohort.yaml:12:5: …".
  std::vector<std::string> warnings = {};
};

/// Reads a configuration. kInvalid: every problem of it, a line each: "cohort.yaml:12:5: …, expected …".
[[nodiscard]] Result<NodeConfig> read_config(const std::filesystem::path& file);
/// The same from text; `name` is what problems call it.
[[nodiscard]] Result<NodeConfig> parse_config(std::string_view text, std::string_view name = "cohort.yaml");
/// The reference of all settings, in Markdown, made of the table that reading goes by.
[[nodiscard]] std::string config_reference();

}  // namespace cohort
