#include "cohort/node/node_config.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cohort/base/text_time.h"
#include "node/config_chains.h"
#include "node/config_schema.h"
#include "node/former_config.h"
#include "plugin/exec_arguments.h"

namespace cohort {

namespace {

using namespace std::chrono_literals;
using internal::ConfigPlace;
using internal::Section;
using internal::YamlNode;
namespace kinds = internal::kinds;

constexpr std::uint64_t kKiB = 1U << 10U;
constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kTiB = std::uint64_t{1} << 40U;
constexpr std::uint64_t kMany = 1'000'000;
constexpr Duration kMonth = 30 * 24h;

const auto kSelf = [](auto& config) -> auto& { return config; };

bool is_loopback(const std::string& address) {
  in_addr four{};
  if (::inet_pton(AF_INET, address.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && std::memcmp(&six, &in6addr_loopback, sizeof six) == 0;
}

internal::ValueKind<std::string> loopback_address() {
  const auto parse = [](const std::string& text, std::string& value) {
    value = text;
    return is_loopback(text) ? internal::Fit::kGood : internal::Fit::kWrongType;
  };
  return kinds::scalar<std::string>(
      "a loopback address, 127.0.0.0/8 or ::1 (others need a token, which this version does not have)", "127.0.0.1",
      internal::Quotes::kAllowed, parse, internal::yaml_text);
}

std::string check_group_name(const std::string& name) {
  return name.find('*') < name.size() - 1 ? "has a * that is not at its end; only there it stands for anything" : "";
}

internal::ValueKind<LogLevel> log_level() {
  return kinds::choice<LogLevel>({{"debug", LogLevel::kDebug},
                                  {"info", LogLevel::kInfo},
                                  {"warning", LogLevel::kWarning},
                                  {"error", LogLevel::kError}});
}

Section<LogConfig> log_section() {
  using Format = LogConfig::Format;
  return Section<LogConfig>()
      .key("level", &LogConfig::level, log_level(), "Minimum level to log.")
      .key("format", &LogConfig::format, kinds::choice<Format>({{"text", Format::kText}, {"json", Format::kJson}}),
           "A line of text, or a JSON object, for each entry.")
      .key("file", &LogConfig::file, kinds::path(true), "Empty: standard error. SIGHUP opens it anew.",
           {.sample = "/var/log/cohort.log"});
}

Section<NodeConfig> node_section() {
  const auto level = [](auto& config) -> auto& { return config.log.level; };
  return Section<NodeConfig>()
      .key("name", &NodeConfig::name, kinds::text(1, 128), "The node's name among nodes; the same after a restart.")
      .key("log_level", level, log_level(), "As `log.level`, which counts if both are set. For older files.")
      .key("drain_grace", &NodeConfig::drain_grace, kinds::duration(0s, 24h),
           "How long running tasks have when the node is told to stop; a program then has its `kill_after`.");
}

Section<Rate> rate_section() {
  return Section<Rate>()
      .key("count", &Rate::count, kinds::count(1, kMany), "Starts in a period, on average.", {.sample = "10"})
      .key("period", &Rate::period, kinds::duration(1ms, kMonth), "The period.")
      .key("burst", &Rate::burst, kinds::count(0, kMany), "Starts at once; 0: as `count`.", {.sample = "20"});
}

Section<GroupLimits> group_section() {
  return Section<GroupLimits>()
      .key("max_concurrency", &GroupLimits::max_concurrency, kinds::count(1, kMany),
           "How many of its tasks run at a time. In `defaults`: 4 unless set.", {.sample = "8"})
      .key("weight", &GroupLimits::weight, kinds::number(0.001, 1e6),
           "Its share of the node relative to other groups. In `defaults`: 1 unless set.", {.sample = "1"})
      .key("max_in_flight", &GroupLimits::max_in_flight, kinds::count_or_unlimited(1, kMany),
           "How many of its tasks run or wait for something. In `defaults`: unlimited unless set.", {.sample = "64"})
      .key("max_overrunning", &GroupLimits::max_overrunning, kinds::count(1, kMany),
           "How many steps past their time-out it may have. In `defaults`: as `max_concurrency` unless set.",
           {.sample = "8"})
      .section("rate", &GroupLimits::rate, rate_section(),
               "How often its tasks may start. In `defaults`: any unless set.");
}

Section<RetryPolicy> retry_section() {
  return Section<RetryPolicy>()
      .key("max_retries", &RetryPolicy::max_retries, kinds::count(0, kMany), "Tries after the first.")
      .key("backoff", &RetryPolicy::backoff, kinds::duration(0s, kMonth), "The wait before the first of them.")
      .key("multiplier", &RetryPolicy::multiplier, kinds::number(1, 100), "Each further wait is so many times longer.")
      .key("max_backoff", &RetryPolicy::max_backoff, kinds::duration(0s, kMonth), "No wait is longer.")
      .key("jitter", &RetryPolicy::jitter, kinds::number(0, 1), "By up to this share a wait is shortened at random.");
}

void check_chains(const ChainOptions& chains, const YamlNode& node, const ConfigPlace& place) {
  if (chains.renew_every < chains.lease / 2) return;
  const YamlNode* renew = node.find("renew_every");
  if (renew == nullptr) renew = node.find("lease");
  place.problem(renew == nullptr ? node.place : renew->place,
                "renew_every (" + format_duration(chains.renew_every) + ") must be shorter than half of lease (" +
                    format_duration(chains.lease) + "), so that one lost renewal is no loss");
}

Section<ChainOptions> chain_section() {
  return Section<ChainOptions>()
      .key("concurrency", &ChainOptions::concurrency, kinds::count(1, 10'000),
           "How many tasks run at a time on this node.")
      .key("deadline", &ChainOptions::deadline, internal::kinds::duration_or_none(1ms, 3650 * 24h),
           "The deadline of a task that gives none: after that time no step of it starts any more.")
      .key("step_timeout", &ChainOptions::step_timeout, kinds::duration(1ms, kMonth),
           "Of one try of a step, unless the step says.")
      .key("chain_limit", &ChainOptions::chain_limit, kinds::duration(1ms, kMonth), "Of a task's running time in all.")
      .section("retry", &ChainOptions::retry, retry_section(),
               "When a step that failed is tried again, unless the step says.")
      .key("longest_wait_in_place", &ChainOptions::longest_wait_in_place, kinds::duration(0s, 1h),
           "A longer wait before a retry lets other tasks run meanwhile.")
      .key("keep", &ChainOptions::keep, kinds::duration(0s, kMonth),
           "How long a waiting task keeps its folder meanwhile.")
      .key("overrun_grace", &ChainOptions::overrun_grace, kinds::duration(0s, 24h),
           "How long a step may go on past its time-out until its task fails.")
      .key("poison_after", &ChainOptions::poison_after, kinds::count(1, kMany),
           "Deaths of the node during a step in a process of its own (`exec`), after which the step is poison.")
      .key("lease", &ChainOptions::lease, kinds::duration(1s, 1h),
           "Where nodes share a store: a node unheard of for so long has lost its tasks.")
      .key("renew_every", &ChainOptions::renew_every, kinds::duration(100ms, 30min),
           "How often the node says that it lives. Shorter than half of `lease`.")
      .key("look_every", &ChainOptions::look_every, kinds::duration(100ms, 24h),
           "How often it looks for forgotten tasks.")
      .key("work_folder", &ChainOptions::work_folder, kinds::path(true),
           "For the files of running tasks, and nothing else. Empty: a folder beside the store.")
      .by_name(
          "templates", [](ChainOptions& chains, const std::string& name) -> auto& { return chains.templates[name]; },
          internal::chain_template_section(), {.samples = {"thumbnails"}},
          "Chains that tasks may name instead of steps.")
      .check(check_chains);
}

Section<SqliteOptions> sqlite_section() {
  using Synchronous = SqliteOptions::Synchronous;
  return Section<SqliteOptions>()
      .key("folder", &SqliteOptions::folder, kinds::path(false),
           "Where they are. Made if it is not there; relative to the working directory.")
      .key("synchronous", &SqliteOptions::synchronous,
           kinds::choice<Synchronous>(
               {{"off", Synchronous::kOff}, {"normal", Synchronous::kNormal}, {"full", Synchronous::kFull}}),
           "What acknowledged tasks survive. full: a loss of power; normal: the end of the process; off: for "
           "experiments.")
      .key("max_queued", &SqliteOptions::max_queued, kinds::count(1, kMany),
           "Calls that wait for it; more are rejected.")
      .key("max_batch", &SqliteOptions::max_batch, kinds::count(1, 100'000), "Calls in one transaction.");
}

Section<PostgresOptions> postgres_section() {
  return Section<PostgresOptions>()
      .key("url", &PostgresOptions::url, kinds::text(1, 4096),
           "Where the server is, with all that libpq understands; several hosts may be given. The password may also be "
           "in the environment (PGPASSWORD).",
           {.sample = "postgres://cohort@db.example.org/cohort", .is_required = true})
      .key("password_file", &PostgresOptions::password_file, kinds::path(true), "A file with the password alone.",
           {.sample = "/etc/cohort/password"})
      .key("schema", &PostgresOptions::schema, kinds::text(1, 50), "The tables are in this schema.")
      .key("migrate", &PostgresOptions::migrate, kinds::yes_no(),
           "Make the tables, or bring them to the version of this program, at the start.")
      .key("writers", &PostgresOptions::writers, kinds::count(1, 4),
           "Connections that change tasks; the node has five more.")
      .key("max_queued", &PostgresOptions::max_queued, kinds::count(1, kMany),
           "Calls that wait for it; more are rejected.")
      .key("max_batch", &PostgresOptions::max_batch, kinds::count(1, 10'000), "Calls in one transaction.")
      .key("connect_timeout", &PostgresOptions::connect_timeout, kinds::duration(1s, 1h),
           "For one attempt to connect to one host.")
      .key("patience", &PostgresOptions::patience, kinds::duration(0s, 1h),
           "How long a call is repeated while the server is away, before it fails.");
}

Section<StoreConfig> store_section() {
  return Section<StoreConfig>()
      .section(
          "sqlite", &StoreConfig::sqlite, sqlite_section(),
          "The embedded store: one file in a folder, for one node. With `postgres`, the folder has only the node's "
          "own files.")
      .section("postgres", &StoreConfig::postgres, postgres_section(),
               "A store on a PostgreSQL server (15 or newer), which several nodes may share.");
}

Section<AdminConfig> admin_section() {
  const auto wait = kinds::duration(100ms, 1h);
  return Section<AdminConfig>()
      .key("address", &AdminConfig::address, loopback_address(), "Where it listens.")
      .key("port", &AdminConfig::port, kinds::count(0, 65'535), "0: any that is free.")
      .key("threads", &AdminConfig::threads, kinds::count(1, 64), "Threads that answer.")
      .key("max_connections", &AdminConfig::max_connections, kinds::count(1, 65'536),
           "Beyond it the longest idle connection is ended for a new one. Fitted to the limit of open files.")
      .key("max_event_streams", &AdminConfig::max_event_streams, kinds::count(1, 10'000),
           "Readers of events at a time.")
      .key("max_body", &AdminConfig::max_body, kinds::size(kKiB, 64 * kMiB), "Of a request.")
      .key("max_header", &AdminConfig::max_header, kinds::size(kKiB, kMiB), "All headers of a request together.")
      .key("request_timeout", &AdminConfig::request_timeout, wait, "From the first byte of a request to its last.")
      .key("idle_timeout", &AdminConfig::idle_timeout, wait, "Between the requests of a connection.")
      .key("write_timeout", &AdminConfig::write_timeout, wait, "For a reader to take what it is sent.");
}

void check_program(const ExecProgram& program, const YamlNode& node, const ConfigPlace& place) {
  if (const YamlNode* const arguments = node.find("arguments")) {
    for (const YamlNode& each : arguments->children) {
      const auto parsed = ExecArguments::parse({each.text});
      if (!parsed) place.problem(each.place, parsed.error().message);
    }
  }
  if (program.cpu_time == Duration::zero() || program.cpu_time >= 1s) return;
  place.problem(node.find("cpu_time")->place, "cpu_time (" + format_duration(program.cpu_time) +
                                                  ") is counted in seconds, expected 0 or at least 1s");
}

Section<ExecProgram> program_section() {
  return Section<ExecProgram>()
      .key("path", &ExecProgram::path, kinds::absolute_path(), "The program. It is run as it is: no shell, no search.",
           {.sample = "/usr/bin/convert", .is_required = true})
      .key("arguments", &ExecProgram::arguments, kinds::list_of(kinds::text(0, 64 * kKiB), 0, 1000),
           "What it is given. `{file}`, `{folder}`, `{task_id}`, `{parameters.NAME}`, … stand for values.",
           {.sample = "['{file}', -resize, '{parameters.size}', out.png]"})
      .key("environment", &ExecProgram::environment, kinds::environment(1000),
           "Its variables, beside PATH, HOME and those that begin with COHORT_.", {.sample = "{LANG: C}"})
      .key("max_output", &ExecProgram::max_output, kinds::size(1, 64 * kMiB), "Of its standard output; more ends it.")
      .key("max_memory", &ExecProgram::max_memory, kinds::size(0, kTiB), "Of each of its processes; 0: as the node's.",
           {.sample = "512MiB"})
      .key("max_processes", &ExecProgram::max_processes, kinds::count(0, kMany), "Of its user; 0: as the node's.",
           {.sample = "64"})
      .key("cpu_time", &ExecProgram::cpu_time, kinds::duration(0s, kMonth),
           "Of each of its processes, at least 1s; 0: any.", {.sample = "60s"})
      .key("kill_after", &ExecProgram::kill_after, kinds::duration(1ms, 1h), "Delay between SIGTERM and SIGKILL.")
      .key("output", &ExecProgram::output,
           kinds::choice<ExecProgram::Output>({{"json", ExecProgram::Output::kJson},
                                               {"text", ExecProgram::Output::kText},
                                               {"ignore", ExecProgram::Output::kIgnore}}),
           "What its standard output is. json: nothing or an object, the step's outputs; text: kept as the output "
           "`output`; ignore: thrown away.")
      .key("artifacts", &ExecProgram::artifacts, kinds::text(0, 255),
           "A folder, relative to the one it begins in, whose files outlive the step. The task lists them; they are "
           "removed with the task.",
           {.sample = "out"})
      .key("max_artifacts", &ExecProgram::max_artifacts, kinds::size(1, kTiB),
           "Bytes of all artifacts of a step; more fail the step.")
      .placed(&ExecProgram::place)
      .check(check_program);
}

Section<ExecOptions> exec_section() {
  return Section<ExecOptions>()
      .key("use_cgroups", &ExecOptions::use_cgroups, kinds::yes_no(),
           "Whether each step gets a cgroup (version 2), where one may be made.")
      .key("helper", &ExecOptions::helper, kinds::path(true),
           "The program cohort-exec-helper. Empty: beside `cohort`, or where it was installed.")
      .by_name(
          "programs", [](ExecOptions& exec, const std::string& name) -> auto& { return exec.programs[name]; },
          program_section(), {.samples = {"thumbnail"}}, "The programs that steps may run.");
}

Section<HttpPluginOptions> http_section() {
  return Section<HttpPluginOptions>()
      .key("allow_urls", &HttpPluginOptions::allow_urls, kinds::yes_no(), "Whether tasks may bring URLs of their own.")
      .key("allow_private", &HttpPluginOptions::allow_private, kinds::yes_no(),
           "Whether such URLs may lead to private, loopback and link-local addresses.")
      .key("timeout", &HttpPluginOptions::timeout, kinds::duration(1ms, 24h), "Of one call of such a URL.")
      .key("max_response", &HttpPluginOptions::max_response, kinds::size(1, 16 * kMiB), "Of any call.");
}

Section<FileSourceOptions> files_section() {
  return Section<FileSourceOptions>()
      .key("roots", &FileSourceOptions::roots, kinds::list_of(kinds::absolute_path(), 0, 1000),
           "Folders in which `file:` may point; none: nowhere.", {.sample = "[/srv/in]"})
      .key("allow_http", &FileSourceOptions::allow_http, kinds::yes_no(), "Whether `http:` and `https:` are fetched.")
      .key("allow_private", &FileSourceOptions::allow_private, kinds::yes_no(),
           "Whether from private, loopback and link-local addresses too.")
      .key("max_bytes", &FileSourceOptions::max_bytes, kinds::size(1, kTiB), "Of one file.")
      .key("timeout", &FileSourceOptions::timeout, kinds::duration(1ms, 24h), "Of one download.");
}

Section<NodeConfig> plugins_section() {
  return Section<NodeConfig>()
      .section("exec", &NodeConfig::exec, exec_section(), "The step `exec`.")
      .section("http", &NodeConfig::http, http_section(), "The step `http`. Its pools are under `providers`.")
      .section("files", &NodeConfig::files, files_section(), "Where the files of tasks may come from.");
}

void check_breaker(const BreakerOptions& breaker, const YamlNode& node, const ConfigPlace& place) {
  if (const auto good = breaker.check(); !good) place.problem(node.problem_place(), good.error().message);
}

Section<BreakerOptions> breaker_section() {
  using B = BreakerOptions;
  const auto rate = kinds::number(1e-6, 1);
  const auto wait = kinds::duration(1ms, 24h);
  return Section<B>()
      .key("min_calls", &B::min_calls, kinds::count(1, kMany), "Below that many calls no rate counts.")
      .key("error_rate_threshold", &B::error_rate_threshold, rate, "It opens when so many calls fail.")
      .key("slow_call_threshold", &B::slow_call_threshold, wait,
           "So long is slow. Unless set: 4 s, or the pool's `timeout` where that is shorter.")
      .key("slow_rate_threshold", &B::slow_rate_threshold, rate, "It opens when so many calls are slow.")
      .key("consecutive_failure_threshold", &B::consecutive_failure_threshold, kinds::count(1, kMany),
           "It opens after so many failures in a row, or twice as many calls in a row that were cut off unanswered.")
      .key("open_base", &B::open_base, wait, "How long it stays open the first time.")
      .key("open_max", &B::open_max, wait, "And at most. Not below `open_base`.")
      .key("open_backoff_multiplier", &B::open_backoff_multiplier, kinds::number(1, 10),
           "Each further time so many times longer.")
      .key("open_jitter_ratio", &B::open_jitter_ratio, kinds::number(0, 0.9), "Give or take this share, at random.")
      .key("permitted_calls_in_half_open", &B::permitted_calls_in_half_open, kinds::count(1, 64),
           "Calls that try it out then.")
      .key("half_open_success_threshold", &B::half_open_success_threshold, kinds::count(1, 64),
           "So many that succeed close it. At most `permitted_calls_in_half_open`.")
      .key("half_open_failure_threshold", &B::half_open_failure_threshold, kinds::count(1, 64),
           "So many that fail open it again. At most `permitted_calls_in_half_open`.")
      .key("half_open_max_duration", &B::half_open_max_duration, wait,
           "Undecided for so long, it opens again; but goes on if no call has failed.")
      .key("shadow", &B::shadow, kinds::yes_no(), "It only says what it would do, and lets every call pass.")
      .check(check_breaker);
}

Section<HttpPool> pool_section() {
  return Section<HttpPool>()
      .key("urls", &HttpPool::urls, kinds::list_of(kinds::url(), 1, 64),
           "They serve the same calls; a step's path is appended.",
           {.sample = "[https://a.example, https://b.example]", .is_required = true})
      .key("timeout", &HttpPool::timeout, kinds::duration(1ms, 24h), "Of one try.")
      .key("max_attempts", &HttpPool::max_attempts, kinds::count(1, 64), "Tries of one call, each at another URL.")
      .key("max_concurrent", &HttpPool::max_concurrent, kinds::count(1, kMany), "Calls of one URL at a time.")
      .key("backup_urls", &HttpPool::backup_urls, kinds::list_of(kinds::url(), 0, 63),
           "Called only while none of `urls` may be.", {.sample = "[https://far.example]"})
      .key("auth_is_failure", &HttpPool::auth_is_failure, kinds::yes_no(),
           "Whether 401 and 403 count as failures of the URL and another one is asked.")
      .key("panic_share", &HttpPool::panic_share, kinds::number(0, 1),
           "When more than this share of the URLs is open, calls are spread over all. 1: never.")
      .section("breaker", &HttpPool::breaker, breaker_section(), "The circuit breaker of each URL.");
}

// Both keys set the same member, and the later one in the text would win.
void prefer_log_level(NodeConfig& config, const YamlNode& root, const ConfigPlace& place) {
  const YamlNode* const log = root.find("log");
  const YamlNode* const level = log != nullptr ? log->find("level") : nullptr;
  if (level != nullptr) log_level().read(*level, config.log.level, place);
}

Section<NodeConfig> make_table() {
  const auto group = [](NodeConfig& config, const std::string& name) -> auto& {
    return name == "defaults" ? config.group_defaults : config.groups[name];
  };
  const auto pool = [](NodeConfig& config, const std::string& name) -> auto& { return config.http.pools[name]; };
  return Section<NodeConfig>()
      .section("node", kSelf, node_section(), "The node itself.")
      .section("log", &NodeConfig::log, log_section(), "What the node says of itself, and where.")
      .by_name("groups", group, group_section(), {.samples = {"defaults", "vip:*"}, .check = check_group_name},
               "Limits by group. A name that ends in `*` is for all that begin so; `defaults` is for the others, "
               "and for what is not set.")
      .section("chains", &NodeConfig::chains, chain_section(), "How tasks are run.")
      .section("store", &NodeConfig::store, store_section(), "Where tasks are kept.")
      .section("admin", &NodeConfig::admin, admin_section(), "The HTTP side of the node.")
      .section("plugins", kSelf, plugins_section(), "What steps may do.")
      .by_name("providers", pool, pool_section(), {.samples = {"billing"}}, "Pools of URLs for the step `http`.")
      .section("retention", &NodeConfig::chains,
               Section<ChainOptions>().key("tasks", &ChainOptions::retention, kinds::duration(0s, 3650 * 24h),
                                           "How long ended tasks are kept; 0: for ever."),
               "What is removed when.");
}

const Section<NodeConfig>& table() {
  static const Section<NodeConfig> all = make_table();
  return all;
}

}  // namespace

Result<NodeConfig> parse_config(std::string_view text, std::string_view name) {
  internal::ConfigProblems problems;
  NodeConfig config;
  if (auto root = internal::read_yaml(text, problems)) {
    internal::rename_former_keys(*root, problems);
    const ConfigPlace place{.problems = &problems};
    table().read(*root, config, place);
    if (problems.count() == 0) prefer_log_level(config, *root, place);
  }
  if (problems.count() > 0) return Error{ErrorCode::kInvalid, problems.to_string(name)};
  config.warnings = problems.warnings(name);
  const auto add_name = [&](std::string& place) { place = std::string(name) + ":" + place; };
  for (auto& [unused, program] : config.exec.programs) add_name(program.place);
  for (auto& [unused, chain] : config.chains.templates) {
    add_name(chain.place);
    std::ranges::for_each(chain.step_places, add_name);
  }
  return config;
}

Result<NodeConfig> read_config(const std::filesystem::path& file) {
  const std::string name = file.string();
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return Error{ErrorCode::kNotFound,
                   "there is no configuration '" + name +
                       "'; check the path, write the file, or start without one for the defaults"};
    }
    return Error{ErrorCode::kUnavailable, "the configuration '" + name + "' cannot be opened: " + std::strerror(error) +
                                              "; check its permissions"};
  }
  // One byte more than is read: enough for the reader to see that there is too much.
  std::string text(internal::kMaxYamlBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.gcount() == 0 && std::filesystem::is_directory(file))) {
    return Error{ErrorCode::kUnavailable, "the configuration '" + name + "' cannot be read; check that it is a file"};
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_config(text, name);
}

std::string config_reference() {
  return "# Configuration\n\n"
         "A node reads one YAML file, `cohort.yaml`. Every key has a default unless the table says that it is "
         "required, so "
         "an empty file is a good one. A key that is not in the tables, a value of another type and a value out of its "
         "range are errors; all of them are shown at once, each with its line and column, and the node does not "
         "start.\n\n"
         "- A duration is written as `500ms`, `2.5s`, `5m`, `1h30m` or `7d`.\n"
         "- A size is in bytes, or written as `64KiB`, `10MiB`, `1GiB` or `1TiB`.\n"
         "- True and false are `true` and `false`; `yes` and `on` are text.\n"
         "- Numbers have no quotes. Anchors, aliases, tags and several documents are not read.\n\n" +
         internal::markdown_of(*table().info());
}

}  // namespace cohort
