#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"

namespace cohort {

/// The arguments of a program, with places for values of a step: see ExecProgram::arguments for how they are written.
///
/// Thread-safety: thread-compatible.
class ExecArguments {
 public:
  static constexpr std::size_t kMaxBytes = 128U << 10U;

  /// kInvalid: a place that is not closed, or that no step has.
  [[nodiscard]] static Result<ExecArguments> parse(const std::vector<std::string>& templates);

  /// With the values of a step: an object with "file", "folder", "task_id", "parameters" and so on. kInvalid: a value
  /// is missing, is no text, number or boolean, would be taken for an option, or all of it is too long.
  [[nodiscard]] Result<std::vector<std::string>> expand(const nlohmann::json& step) const;
  /// Whether these parameters have all that is asked of them.
  [[nodiscard]] Result<void> check_parameters(const nlohmann::json& parameters) const;

 private:
  struct Piece {
    std::string text = {};                // As it is, or the place as it was written, without braces.
    std::vector<std::string> names = {};  // Of a place: from the root to the value. Empty: text.
  };
  using Argument = std::vector<Piece>;

  static Result<Argument> parse_one(std::string_view text);
  static Result<Piece> parse_place(std::string_view text);
  static Result<std::string> expand_one(const Argument& argument, const nlohmann::json& step);
  static Result<std::string> value_of(const Piece& place, const nlohmann::json& step);

  std::vector<Argument> arguments_;
};

}  // namespace cohort
