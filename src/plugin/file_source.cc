#include "cohort/plugin/file_source.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cohort/base/percent.h"
#include "cohort/provider/http/http_client.h"
#include "plugin/file_descriptor.h"
#include "plugin/rooted_file.h"
#include "plugin/web_address.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 40U;
constexpr std::size_t kPiece = std::size_t{8} << 20U;
constexpr std::size_t kMaxEnding = 16;

Error error(ErrorCode code, std::string text) { return {code, std::move(text)}; }
// kRejected: this process lacks the means, which is nobody's fault.
Error error_of(int number, const std::string& what) {
  return error(is_shortage(number) ? ErrorCode::kRejected : ErrorCode::kUnavailable,
               what + ": " + std::generic_category().message(number));
}
Error stopped() { return error(ErrorCode::kCancelled, "it was asked to stop while it fetched the file"); }

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// "file", with the ending of the original where that is plain.
std::string name_for(std::string_view original) {
  const std::string_view name = original.substr(original.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return "file";
  const std::string_view ending = name.substr(dot + 1);
  const bool is_kept = !ending.empty() && ending.size() <= kMaxEnding && std::ranges::all_of(ending, is_plain);
  return is_kept ? "file." + std::string(ending) : "file";
}

// The file that is being fetched; removed unless it is kept.
class HalfFile {
 public:
  HalfFile(fs::path path, std::size_t max_bytes)
      : path_(std::move(path)),
        left_(max_bytes),
        max_bytes_(max_bytes),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (!file_.is_open()) fail(errno);
  }
  HalfFile(const HalfFile&) = delete;
  HalfFile& operator=(const HalfFile&) = delete;
  ~HalfFile() {
    if (!is_kept_) ::unlink(path_.c_str());
  }

  // Why it cannot go on.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

  bool write(std::string_view bytes);
  // As much as it takes of what comes next; 0 at the end, less than 0 when it has failed.
  ssize_t copy_from(int source);
  void refuse_more() {
    failure_ =
        error(ErrorCode::kInvalid, "the file has more than the " + std::to_string(max_bytes_) + " bytes allowed");
  }
  fs::path keep() {
    is_kept_ = true;
    return path_;
  }

 private:
  void fail(int number) { failure_ = error_of(number, "'" + path_.string() + "' cannot be written"); }

  const fs::path path_;
  std::size_t left_;
  const std::size_t max_bytes_;
  FileDescriptor file_;
  std::optional<Error> failure_;
  bool copies_within_ = true;  // The file systems can do it without us.
  bool is_kept_ = false;
};

bool HalfFile::write(std::string_view bytes) {
  if (failure_) return false;
  if (bytes.size() > left_) {
    refuse_more();
    return false;
  }
  left_ -= bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail(errno);
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

ssize_t HalfFile::copy_from(int source) {
  if (copies_within_ && left_ != 0) {
    const ssize_t copied = ::copy_file_range(source, nullptr, file_.get(), nullptr, std::min(left_, kPiece), 0);
    if (copied > 0) {
      left_ -= static_cast<std::size_t>(copied);
      return copied;
    }
    copies_within_ = false;  // Whether it is the end or an error is for read() to say.
  }
  std::array<char, std::size_t{64} << 10U> buffer;
  ssize_t got = -1;
  do {
    got = ::read(source, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    failure_ = error_of(errno, "it cannot be read");
  } else if (got > 0 && !write({buffer.data(), static_cast<std::size_t>(got)})) {
    return -1;
  }
  return got;
}

class Source {
 public:
  explicit Source(FileSourceOptions options) : options_(std::move(options)) {}

  Result<void> start();
  [[nodiscard]] Result<void> check(const std::string& reference) const;
  Result<fs::path> fetch(const std::string& reference, const fs::path& folder, const std::stop_token& stop);

 private:
  Result<fs::path> copy(std::string_view reference, const fs::path& folder, const std::stop_token& stop);
  Result<OpenFile> open(const std::string& path) const;
  Result<fs::path> download(const std::string& url, const fs::path& folder, const std::stop_token& stop);
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] Error refused_scheme(const std::string& scheme) const;

  FileSourceOptions options_;
  std::unique_ptr<HttpClient> client_;
};

// Without "." and ".." in it, and without a '/' at its end.
fs::path plain_root(const fs::path& root) {
  fs::path plain = root.lexically_normal();
  return !plain.has_filename() && plain.has_relative_path() ? plain.parent_path() : plain;
}

Result<void> Source::start() {
  if (options_.max_bytes < 1 || options_.max_bytes > kMaxBytes) {
    return error(ErrorCode::kInvalid,
                 "max_bytes of files is " + std::to_string(options_.max_bytes) + "; it is 1 byte to 1 TiB");
  }
  if (options_.timeout <= Duration::zero()) return error(ErrorCode::kInvalid, "the timeout of files is above 0");
  for (fs::path& root : options_.roots) {
    std::error_code ignored;
    if (!root.is_absolute() || !fs::is_directory(root, ignored)) {
      return error(ErrorCode::kInvalid, "the root '" + root.string() + "' of files is no folder with an absolute path");
    }
    root = plain_root(root);
  }
  if (!options_.allow_http) return {};
  auto client = HttpClient::make({.max_redirects = 5, .allow_private_addresses = options_.allow_private});
  if (!client) return client.error();
  client_ = *std::move(client);
  return {};
}

std::string Source::allowed() const {
  const std::string files = options_.roots.empty() ? "" : "file:///…";
  const std::string web = options_.allow_http ? "http://… and https://…" : "";
  if (files.empty() && web.empty()) return "this node fetches no files";
  return "this node fetches " + files + (files.empty() || web.empty() ? "" : ", ") + web;
}

std::string scheme_of(const std::string& reference) {
  std::string scheme = reference.substr(0, std::min(reference.find(':'), reference.size()));
  std::ranges::transform(scheme, scheme.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  return scheme;
}

Error Source::refused_scheme(const std::string& scheme) const {
  return error(ErrorCode::kInvalid, "'" + scheme.substr(0, 40) + ":' is not fetched; " + allowed());
}

Result<fs::path> Source::fetch(const std::string& reference, const fs::path& folder, const std::stop_token& stop) {
  const std::string scheme = scheme_of(reference);
  if (scheme == "file" && !options_.roots.empty()) return copy(reference, folder, stop);
  if (client_ && (scheme == "http" || scheme == "https")) return download(reference, folder, stop);
  return refused_scheme(scheme);
}

// The absolute path that a reference means.
Result<std::string> path_of(std::string_view reference) {
  const auto wrong = [](const std::string& why) {
    return error(ErrorCode::kInvalid, "the reference to a file " + why + "; it looks like file:///folder/name");
  };
  std::string_view rest = reference.substr(std::string_view("file:").size());
  if (!rest.starts_with("//")) return wrong("has no // behind its scheme");
  rest.remove_prefix(2);
  const std::size_t slash = rest.find('/');
  const std::string_view host = rest.substr(0, slash);
  if (!host.empty() && host != "localhost") return wrong("names another host");
  if (slash == std::string_view::npos) return wrong("has no path");
  if (rest.find_first_of("?#") != std::string_view::npos) return wrong("has a '?' or '#', written %3F and %23");
  const std::optional<std::string> path = percent_decode(rest.substr(slash));
  if (!path) return wrong("has a % without two digits behind it");
  if (path->find('\0') != std::string::npos) return wrong("has a zero byte in it");
  return *path;
}

// What is left of a path below a root. Whether it stays there is for open_beneath() to say.
std::optional<std::string> below(const std::string& path, const std::string& root) {
  const std::string prefix = root.ends_with('/') ? root : root + "/";
  if (!path.starts_with(prefix)) return std::nullopt;
  const std::size_t begin = path.find_first_not_of('/', prefix.size());
  if (begin == std::string::npos) return std::nullopt;
  return path.substr(begin);
}

Error outside_of_roots(const std::string& path) {
  return error(ErrorCode::kInvalid, "'" + path + "' lies in none of the folders that files may come from");
}

Result<OpenFile> Source::open(const std::string& path) const {
  std::optional<Error> why;
  for (const fs::path& root : options_.roots) {
    const std::optional<std::string> name = below(path, root.string());
    if (!name) continue;
    Result<OpenFile> file = open_beneath(root, *name);
    if (file) return file;
    if (!why) why = file.error();
  }
  return why ? *why : outside_of_roots(path);
}

Result<void> Source::check(const std::string& reference) const {
  const std::string scheme = scheme_of(reference);
  if (options_.allow_http && (scheme == "http" || scheme == "https")) {
    const Result<WebAddress> address = parse_web_address(reference);
    return address ? Result<void>() : address.error();
  }
  if (scheme != "file" || options_.roots.empty()) return refused_scheme(scheme);
  const Result<std::string> path = path_of(reference);
  if (!path) return path.error();
  const std::string plain = fs::path(*path).lexically_normal().string();
  const bool is_inside = std::ranges::any_of(
      options_.roots, [&](const fs::path& root) { return below(plain, root.string()).has_value(); });
  return is_inside ? Result<void>() : outside_of_roots(*path);
}

Result<fs::path> Source::copy(std::string_view reference, const fs::path& folder, const std::stop_token& stop) {
  const Result<std::string> path = path_of(reference);
  if (!path) return path.error();
  const Result<OpenFile> source = open(*path);
  if (!source) return source.error();
  HalfFile target(folder / name_for(*path), options_.max_bytes);
  if (source->bytes > options_.max_bytes) target.refuse_more();
  while (!target.failure()) {
    if (stop.stop_requested()) return stopped();
    if (target.copy_from(source->descriptor.get()) == 0) return target.keep();
  }
  return *target.failure();
}

ErrorCode code_of(int status) {
  if (status == 404 || status == 410) return ErrorCode::kNotFound;
  const bool may_pass = status >= 500 || status == 429 || status == 408 || status == 425;
  return may_pass ? ErrorCode::kUnavailable : ErrorCode::kInvalid;
}

Error error_of(const Failure& failure) {
  if (failure.type == FailureType::kHttp4xx) return {ErrorCode::kInvalid, failure.error.message};
  if (failure.type == FailureType::kLocal) return {ErrorCode::kRejected, failure.error.message};
  const bool is_late = failure.error.code == ErrorCode::kTimedOut;
  return {is_late ? ErrorCode::kTimedOut : ErrorCode::kUnavailable, failure.error.message};
}

Result<fs::path> Source::download(const std::string& url, const fs::path& folder, const std::stop_token& stop) {
  const Result<WebAddress> address = parse_web_address(url);
  if (!address) return address.error();
  HalfFile target(folder / name_for(address->path), options_.max_bytes);
  if (target.failure()) return *target.failure();
  const HttpAnswer answer = client_->stream(HttpRequest(url).with_timeout(options_.timeout).with_stop(stop),
                                            [&](std::string_view piece) { return target.write(piece); });
  if (target.failure()) return *target.failure();
  if (stop.stop_requested()) return stopped();
  if (const auto* const failure = std::get_if<Failure>(&answer)) return error_of(*failure);
  const int status = std::get<HttpResponse>(answer).status;
  if (status >= 200 && status < 300) return target.keep();
  return error(code_of(status), "GET " + address->shown() + ": HTTP " + std::to_string(status));
}

}  // namespace

Result<FileSource> make_file_source(FileSourceOptions options) {
  const auto source = std::make_shared<Source>(std::move(options));
  if (auto started = source->start(); !started) return started.error();
  return FileSource([source](const std::string& reference, const fs::path& folder, std::stop_token stop) {
    return source->fetch(reference, folder, stop);
  });
}

std::function<Result<void>(const std::string& reference)> make_file_check(FileSourceOptions options) {
  for (fs::path& root : options.roots) root = plain_root(root);
  return [source = std::make_shared<const Source>(std::move(options))](const std::string& reference) {
    return source->check(reference);
  };
}

}  // namespace cohort
