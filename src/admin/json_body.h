#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/clock.h"
#include "cohort/base/result.h"

namespace cohort {

/// JSON from outside: an object, nested 64 deep at most. No body is an empty object.
[[nodiscard]] Result<nlohmann::json> parse_body(const std::string& text);

/// Reads the members of an object one by one; after the last one error() has the first that was wrong, or one that
/// nobody asked for.
class JsonBody {
 public:
  explicit JsonBody(const nlohmann::json& object) : object_(object) {}

  [[nodiscard]] std::optional<std::string> text(std::string_view name, std::size_t max_characters);
  [[nodiscard]] std::optional<std::uint32_t> count(std::string_view name, std::uint32_t min, std::uint32_t max);
  [[nodiscard]] std::optional<double> number(std::string_view name, double above, double max);
  [[nodiscard]] std::optional<bool> flag(std::string_view name);
  [[nodiscard]] std::optional<Duration> duration(std::string_view name);
  [[nodiscard]] std::optional<Error> error() const;

 private:
  const nlohmann::json* find(std::string_view name);
  void wrong(std::string_view name, const std::string& expected);

  const nlohmann::json& object_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

}  // namespace cohort
