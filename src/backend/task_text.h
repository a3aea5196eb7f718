#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/store/chain_task.h"

namespace cohort::backend {

/// A value of a row that cannot be what this program has written. Thrown and caught within a backend only.
class Damaged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text of a request that stores keep: JSON with the fields that have no column of their own.
[[nodiscard]] std::string request_text(const NewTask& request);
/// The text of a request without the parameters of its steps, for lists.
[[nodiscard]] std::string outline_text(NewTask request);
/// Reads a text of request_text() or outline_text(). Throws Damaged.
void read_request(const std::string& text, NewTask& request);
[[nodiscard]] std::string lines_text(const std::vector<std::string>& lines);
/// Throws Damaged.
[[nodiscard]] std::vector<std::string> read_lines(const std::string& text);

/// Throws Damaged if a row breaks what the rules of chains take for granted.
void check_consistency(const ChainTask& task);

/// The text of a request that stands in the row of a task whose own text could not be read.
inline constexpr const char* kTextOfDamaged = R"({"format":3,"steps":[],"deadline_ns":1})";

/// A request with the columns that are made of it. The caller's thread makes them: the writer has enough to do.
struct PreparedTask {
  explicit PreparedTask(NewTask task);

  NewTask request;
  Result<void> checked;
  std::string hash;
  std::string text;
  std::string tags;
  std::optional<std::string> outline;
};

}  // namespace cohort::backend
