#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/fields.h"
#include "cli/task_view.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr int kBarWidth = 20;
constexpr int kMaxNameWidth = 24;

enum class StepState { kWaiting, kRunning, kDone, kFailed };

StepState state_of(const json& task, std::size_t index) {
  const std::string state = raw_text(task, "state");
  const std::size_t current = whole(task, "steps_done");
  if (state == "completed" || index < current) return StepState::kDone;
  if (index > current) return StepState::kWaiting;
  if (is_final(task)) return StepState::kFailed;
  return state == "processing" || whole(task, "attempt") > 0 ? StepState::kRunning : StepState::kWaiting;
}

struct Mark {
  const char* sign;
  Colour colour;
};

Mark mark_of(StepState state) {
  switch (state) {
    case StepState::kWaiting: return {"\xC2\xB7", Colour::kDim};
    case StepState::kRunning: return {"\xE2\x96\xB8", Colour::kBlue};
    case StepState::kDone: return {"\xE2\x9C\x93", Colour::kGreen};
    case StepState::kFailed: return {"\xE2\x9C\x97", Colour::kRed};
  }
  return {"?", Colour::kNone};
}

int percent_of(const json& task) {
  const double progress = number(task, "progress");
  if (!std::isfinite(progress)) return 0;
  return static_cast<int>(std::clamp(progress, 0.0, 1.0) * 100);
}

std::string bar(int percent) {
  const int full = percent * kBarWidth / 100;
  std::string out;
  for (int i = 0; i < kBarWidth; ++i) out += i < full ? "\xE2\x96\x88" : "\xE2\x96\x91";
  return out;
}

std::string attempt_text(const json& task) {
  const auto attempt = whole(task, "attempt");
  return attempt > 1 ? "(attempt " + std::to_string(attempt) + ")" : "";
}

std::string joined(const std::string& first, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : " ") + second;
}

std::string step_name(const json& step) {
  return cut_to_width(step.is_string() ? safe_text(step.get_ref<const std::string&>()) : shown(step, "plugin"),
                      kMaxNameWidth);
}

std::string step_line(const json& task, std::size_t index, int name_width, int width, const Style& style) {
  const StepState state = state_of(task, index);
  const Mark mark = mark_of(state);
  const std::string name = step_name(list(task, "steps")[index]);
  std::string out = "  " + style.paint(mark.colour, mark.sign) + " ";
  if (state == StepState::kWaiting) return out + style.paint(Colour::kDim, name);
  const int percent = state == StepState::kDone ? 100 : percent_of(task);
  out += pad_right(name, name_width) + "  " + style.paint(mark.colour, bar(percent)) +
         pad_left(std::to_string(percent), 4) + "%";
  if (state == StepState::kDone) return out;
  const int left = width - (4 + name_width + 2 + kBarWidth + 5 + 2);
  const std::string note = cut_to_width(joined(shown(task, "progress_note"), attempt_text(task)), std::max(left, 0));
  return note.empty() ? out : out + "  " + note;
}

}  // namespace

std::vector<std::string> progress_lines(const json& task, int width, const Style& style) {
  const json& steps = list(task, "steps");
  int name_width = 0;
  for (const json& step : steps) name_width = std::max(name_width, display_width(step_name(step)));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < steps.size(); ++i) lines.push_back(step_line(task, i, name_width, width, style));
  return lines;
}

std::string progress_sentence(const json& task) {
  std::string out = shown(task, "state");
  if (list(task, "steps").empty() || raw_text(task, "state") == "completed") return out;
  out += ": step " + step_text(task);
  if (percent_of(task) > 0) out += ", " + std::to_string(percent_of(task)) + " %";
  const std::string note = shown(task, "progress_note");
  if (!note.empty()) out += ", " + note;
  return joined(out, attempt_text(task));
}

void ProgressView::show(const json& task) {
  if (redraws_) return redraw(task);
  std::string line = progress_sentence(task);
  if (line == last_) return;
  out_ << line << std::endl;
  last_ = std::move(line);
}

void ProgressView::redraw(const json& task) {
  std::string frame;
  if (drawn_ > 0) frame += "\x1b[" + std::to_string(drawn_) + "A";
  const std::vector<std::string> lines = progress_lines(task, width_, style_);
  for (const std::string& line : lines) frame += "\r\x1b[2K" + line + "\n";
  drawn_ = lines.size();
  out_ << frame << std::flush;
}

}  // namespace cohort
