#include "node/node_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cohort/base/mutex.h"
#include "cohort/base/text_time.h"
#include "cohort/base/utf8.h"

namespace cohort {
namespace {

int open_file(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

// On one line and readable, whatever is in it.
std::string plain(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (bytes == 0 || first < ' ' || first == 0x7F) {
      shown += first == '\n' || first == '\t' ? ' ' : '?';
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return shown;
}

// In quotes if it has spaces, quotes or nothing in it.
std::string value_text(std::string_view value) {
  std::string shown = plain(value);
  if (!shown.empty() && shown.find_first_of(" \"=") == std::string::npos) return shown;
  std::string quoted = "\"";
  for (const char c : shown) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string log_line(LogConfig::Format format, WallTime time, LogLevel level, std::string_view area,
                     std::string_view message, std::span<const LogField> fields) {
  const std::string at = format_time(std::chrono::floor<std::chrono::milliseconds>(time));
  if (format == LogConfig::Format::kJson) {
    nlohmann::ordered_json line = {{"time", at}, {"level", to_string(level)}, {"area", area}, {"message", message}};
    for (const LogField& each : fields) line[std::string(each.name)] = each.value;
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  std::string line = at + " " + std::string(to_string(level)) + " " + std::string(area) + ": " + plain(message);
  for (const LogField& each : fields) {
    if (!each.value.empty()) line.append(" ").append(each.name).append("=").append(value_text(each.value));
  }
  return line;
}

Result<std::unique_ptr<NodeLog>> NodeLog::open(const LogConfig& config, std::string node) {
  int file = STDERR_FILENO;
  if (!config.file.empty()) {
    file = open_file(config.file);
    if (file < 0) {
      return Error{ErrorCode::kUnavailable, "the log '" + config.file.string() +
                                                "' cannot be opened: " + std::generic_category().message(errno) +
                                                "; check log.file and the permissions of its folder"};
    }
  }
  return std::unique_ptr<NodeLog>(new NodeLog(config, std::move(node), file));
}

class NodeLog::Writer {
 public:
  Writer(const LogConfig& config, std::string node, int file) : config_(config), node_(std::move(node)), file_(file) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (file_ != STDERR_FILENO) ::close(file_);
  }

  void add(LogLevel level, std::string_view area, std::string_view message, std::span<const LogField> fields) {
    const std::string line = line_of(level, area, message, fields);
    MutexLock lock(mutex_);
    if (pending_.size() + line.size() > kMaxPending) {
      ++dropped_;
      return;
    }
    const bool wakes = pending_.empty();
    pending_.append(line).push_back('\n');
    if (wakes) changed_.notify_all();
  }

  void reopen() {
    MutexLock lock(mutex_);
    wants_reopen_ = true;
    changed_.notify_all();
  }

  void flush_within(Duration patience) {
    const Time until = system_clock().now() + patience;
    MutexLock lock(mutex_);
    while ((!pending_.empty() || is_writing_) && system_clock().now() < until) changed_.wait_until(mutex_, until);
  }

  /// False: it is stuck in a write.
  bool end_within(Duration patience) {
    const Time until = system_clock().now() + patience;
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    while (!has_ended_ && system_clock().now() < until) changed_.wait_until(mutex_, until);
    return has_ended_;
  }

  void run() {
    MutexLock lock(mutex_);
    while (!is_ending_ || !pending_.empty()) {
      if (std::exchange(wants_reopen_, false) && !config_.file.empty()) {
        lock.unlock();  // A file system that does not answer holds up this thread alone.
        const int file = open_file(config_.file);
        if (file >= 0) ::close(std::exchange(file_, file));
        lock.lock();
        continue;
      }
      if (pending_.empty()) {
        changed_.wait(mutex_);
        continue;
      }
      std::string text = std::exchange(pending_, {});
      if (const std::uint64_t dropped = std::exchange(dropped_, 0)) {
        const LogField count("dropped", dropped);
        text += line_of(LogLevel::kWarning, "log", "entries were dropped: they came faster than they could be written",
                        {&count, 1}) +
                "\n";
      }
      is_writing_ = true;
      lock.unlock();
      write_all(text);
      lock.lock();
      is_writing_ = false;
      changed_.notify_all();
    }
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  // With the name of the node, unless the entry has one.
  [[nodiscard]] std::string line_of(LogLevel level, std::string_view area, std::string_view message,
                                    std::span<const LogField> fields) const {
    const WallTime now = system_wall_clock().now();
    if (node_.empty() || std::ranges::find(fields, "node", &LogField::name) != fields.end()) {
      return log_line(config_.format, now, level, area, message, fields);
    }
    std::vector<LogField> all(fields.begin(), fields.end());
    all.emplace_back("node", node_);
    return log_line(config_.format, now, level, area, message, all);
  }

  // What cannot be written is lost: there is nowhere to say so.
  void write_all(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(file_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      done += static_cast<std::size_t>(written);
    }
  }

  const LogConfig config_;
  const std::string node_;
  Mutex mutex_;
  CondVar changed_;
  std::string pending_ COHORT_GUARDED_BY(mutex_);
  std::uint64_t dropped_ COHORT_GUARDED_BY(mutex_) = 0;
  bool wants_reopen_ COHORT_GUARDED_BY(mutex_) = false;
  bool is_writing_ COHORT_GUARDED_BY(mutex_) = false;
  bool is_ending_ COHORT_GUARDED_BY(mutex_) = false;
  bool has_ended_ COHORT_GUARDED_BY(mutex_) = false;
  int file_;  // Of the thread.
};

NodeLog::NodeLog(const LogConfig& config, std::string node, int file)
    : writer_(std::make_shared<Writer>(config, std::move(node), file)), thread_([writer = writer_] { writer->run(); }) {
  ::pthread_setname_np(thread_.native_handle(), "cohort-log");
}

NodeLog::~NodeLog() {
  if (writer_->end_within(std::chrono::seconds(1))) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void NodeLog::write(LogLevel level, std::string_view area, std::string_view message, std::span<const LogField> fields) {
  writer_->add(level, area, message, fields);
}

void NodeLog::reopen() { writer_->reopen(); }
void NodeLog::flush(Duration patience) { writer_->flush_within(patience); }

}  // namespace cohort
