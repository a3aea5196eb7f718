#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/text.h"

namespace cohort {

/// The steps of a task, one line each: its mark, name, bar, percent, note and attempt. No line is wider than `width`.
///
///     ✓ sha256     ████████████████████ 100%
///     ▸ thumbnail  ███████░░░░░░░░░░░░░  35%  resizing (attempt 2)
///     · upload
[[nodiscard]] std::vector<std::string> progress_lines(const nlohmann::json& task, int width, const Style& style);

/// "processing: step 2/3 thumbnail, 35 %, resizing (attempt 2)", for where nothing can be redrawn.
[[nodiscard]] std::string progress_sentence(const nlohmann::json& task);

/// Shows how a task goes on, again and again.
///
/// On a terminal its steps are redrawn in place; elsewhere a line is written when something has changed.
///
/// Thread-safety: thread-compatible.
class ProgressView {
 public:
  ProgressView(std::ostream& out, bool redraws, int width, Style style)
      : out_(out), redraws_(redraws), width_(width), style_(style) {}

  void show(const nlohmann::json& task);

 private:
  void redraw(const nlohmann::json& task);

  std::ostream& out_;
  bool redraws_;
  int width_;
  Style style_;
  std::size_t drawn_ = 0;  ///< Lines above the cursor that are this view's.
  std::string last_;
};

}  // namespace cohort
