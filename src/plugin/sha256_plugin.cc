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
#include "plugin/step_parameters.h"

namespace cohort {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10U;
constexpr std::uint64_t kBetweenReports = std::uint64_t{16} << 20U;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool is_digit(char c) { return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'f'); }

struct Sha256Step {
  std::string expected = {};  // In lower case; empty: anything.
};

Result<void> read_expected(const nlohmann::json& value, Sha256Step& step) {
  if (value.is_string()) step.expected = value.get<std::string>();
  if (step.expected.size() != 64 || !std::ranges::all_of(step.expected, is_digit)) {
    return Error{ErrorCode::kInvalid, "it has 64 hexadecimal digits"};
  }
  std::ranges::transform(step.expected, step.expected.begin(), lower);
  return {};
}

constexpr StepParameters<Sha256Step, 1> kParameters = {
    {{{"expected", "64 hexadecimal digits", "", "The checksum that the file must have."}, read_expected}}};

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
    const Result<Sha256Step> step = read_parameters(kParameters, parameters);
    return step ? Result<void>() : step.error();
  }

  PluginResult run(StepContext& context) override {
    const Result<Sha256Step> step = read_parameters(kParameters, context.parameters());
    if (!step) return PluginResult::failure(step.error().message);
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
      if (got == 0) return compared(sum.finish(), step->expected, bytes);
      sum.update({piece.data(), static_cast<std::size_t>(got)});
      const std::uint64_t before = bytes;
      bytes += static_cast<std::uint64_t>(got);
      const bool reports = before / kBetweenReports != bytes / kBetweenReports && whole > 0;
      if (reports) context.report_progress(static_cast<double>(bytes) / whole, std::to_string(bytes) + " bytes read");
    }
  }
};

}  // namespace

std::vector<ParameterInfo> sha256_parameters() { return infos_of(kParameters); }

std::shared_ptr<Plugin> make_sha256_plugin() { return std::make_shared<Sha256Plugin>(); }

}  // namespace cohort
