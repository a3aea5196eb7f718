#include "cohort/plugin/sha256_plugin.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "plugin/file_descriptor.h"
#include "plugin/sha256.h"

namespace cohort {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10U;
constexpr std::uint64_t kBetweenReports = std::uint64_t{16} << 20U;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool is_digit(char c) { return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'f'); }

// Nothing is expected: "".
Result<std::string> expected_of(const nlohmann::json& parameters) {
  const auto invalid = [](std::string text) { return Error{ErrorCode::kInvalid, std::move(text)}; };
  if (!parameters.is_object()) return invalid("parameters: it is an object");
  std::string expected;
  for (auto each = parameters.begin(); each != parameters.end(); ++each) {
    if (each.key() != "expected") {
      return invalid("parameters." + each.key().substr(0, 100) + ": there is no such parameter; there is expected");
    }
    if (each->is_string()) expected = each->get<std::string>();
    if (expected.size() != 64 || !std::ranges::all_of(expected, is_digit)) {
      return invalid("parameters.expected: it has 64 hexadecimal digits");
    }
  }
  std::ranges::transform(expected, expected.begin(), lower);
  return expected;
}

PluginResult failed_to_read(const std::filesystem::path& path, int number) {
  std::string reason = "'" + path.string() + "' cannot be read: " + std::generic_category().message(number);
  return is_shortage(number) ? PluginResult::interrupted(std::move(reason)) : PluginResult::retry(std::move(reason));
}

PluginResult compared(std::string sha256, const std::string& expected, std::uint64_t bytes) {
  if (!expected.empty() && sha256 != expected) {
    return PluginResult::failure("the file has the SHA-256 " + sha256 + ", not " + expected + " as expected");
  }
  return PluginResult::success({{"sha256", std::move(sha256)}, {"bytes", bytes}});
}

class Sha256Plugin final : public Plugin {
 public:
  [[nodiscard]] Result<void> check(const nlohmann::json& parameters) const override {
    const Result<std::string> expected = expected_of(parameters);
    return expected ? Result<void>() : expected.error();
  }

  PluginResult run(StepContext& context) override {
    const Result<std::string> expected = expected_of(context.parameters());
    if (!expected) return PluginResult::failure(expected.error().message);
    const std::filesystem::path& path = context.local_file();
    if (path.empty()) return PluginResult::failure("the task has no file");
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return failed_to_read(path, errno);
    std::error_code ignored;
    const std::uintmax_t size = std::filesystem::file_size(path, ignored);
    const double whole = ignored ? 0 : static_cast<double>(size);

    Sha256 sum;
    std::array<char, kPiece> piece;
    std::uint64_t bytes = 0;
    for (;;) {
      if (context.stop_token().stop_requested()) return PluginResult::retry("it was asked to stop");
      const ssize_t got = ::read(file.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed_to_read(path, errno);
      if (got == 0) return compared(sum.finish(), *expected, bytes);
      sum.update({piece.data(), static_cast<std::size_t>(got)});
      const std::uint64_t before = bytes;
      bytes += static_cast<std::uint64_t>(got);
      const bool reports = before / kBetweenReports != bytes / kBetweenReports && whole > 0;
      if (reports) context.report_progress(static_cast<double>(bytes) / whole, std::to_string(bytes) + " bytes read");
    }
  }
};

}  // namespace

std::shared_ptr<Plugin> make_sha256_plugin() { return std::make_shared<Sha256Plugin>(); }

}  // namespace cohort
