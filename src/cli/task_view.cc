#include "cli/task_view.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "api/body_json.h"
#include "cli/fields.h"
#include "cli/progress.h"
#include "cohort/base/text_time.h"

namespace cohort {

using nlohmann::json;

namespace {

constexpr int kLabelWidth = 11;

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += "  " + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string labelled(std::string_view label, const std::string& text) {
  if (text.empty()) return "";
  return pad_right(std::string(label), kLabelWidth) + text + "\n";
}

/// "2026-11-16T05:00:00Z (5m ago)"
std::string moment(const json& task, const char* key, WallTime now) {
  std::string text = shown(task, key);
  if (text.empty()) return "";
  const std::string age = age_text(text, now);
  if (age == "-") return text;
  return text + (age.starts_with("in ") ? " (" + age + ")" : " (" + age + " ago)");
}

std::string tags_text(const json& task) {
  std::string out;
  for (const json& tag : list(task, "tags")) {
    if (tag.is_string()) out += (out.empty() ? "" : ", ") + safe_text(tag.get_ref<const std::string&>());
  }
  return out;
}

std::string deadline_text(const json& task, WallTime now) {
  const std::string at = moment(task, "deadline_at", now);
  return at.empty() ? shown(task, "deadline") : at;  // "none" has no time.
}

std::string header_text(const json& task, WallTime now, const Style& style) {
  std::string state = style.paint(colour_of(raw_text(task, "state")), shown(task, "state"));
  if (truth(task, "cancel_requested")) state += ", cancel requested";
  const std::string priority = shown(task, "priority");
  return labelled("Task", style.paint(Colour::kBold, shown(task, "id"))) + labelled("State", state) +
         labelled("Group", shown(task, "group")) + labelled("Session", shown(task, "session")) +
         labelled("File", shown(task, "file")) + labelled("Priority", priority == "normal" ? "" : priority) +
         labelled("Tags", tags_text(task)) + labelled("Key", shown(task, "idempotency_key")) +
         labelled("Node", shown(task, "owner")) + labelled("Created", moment(task, "created_at", now)) +
         labelled("Started", moment(task, "started_at", now)) + labelled("Ended", moment(task, "ended_at", now)) +
         labelled("Due", moment(task, "due_at", now)) +
         (is_final(task) ? "" : labelled("Deadline", deadline_text(task, now)));
}

std::string section(std::string_view title, const std::string& text, const Style& style) {
  return text.empty() ? "" : "\n" + style.paint(Colour::kBold, title) + "\n" + text;
}

}  // namespace

bool is_final(const json& task) {
  constexpr std::array<std::string_view, 5> kFinal = {"completed", "failed", "cancelled", "expired", "poison"};
  return std::ranges::find(kFinal, raw_text(task, "state")) != kFinal.end();
}

std::string step_text(const json& task) {
  const json& steps = list(task, "steps");
  if (steps.empty()) return "-";
  const std::size_t step = whole(task, "steps_done");
  const std::string of = "/" + std::to_string(steps.size());
  if (step >= steps.size()) return std::to_string(steps.size()) + of;
  return std::to_string(step + 1) + of + " " + shown(steps[step], "plugin");
}

Table task_table(const json& tasks, WallTime now) {
  Table table({{.title = "TASK", .shortens = true, .min_width = 12},
               {.title = "GROUP", .shortens = true, .min_width = 8, .drop = 1},
               {.title = "STATE", .min_width = 10},
               {.title = "STEP", .shortens = true, .min_width = 8},
               {.title = "TRY", .is_number = true, .min_width = 3, .drop = 3},
               {.title = "AGE", .is_number = true, .min_width = 4},
               {.title = "ERROR", .shortens = true, .min_width = 8, .drop = 2}});
  for (const json& task : tasks) {
    const std::string state = shown(task, "state");
    table.add_row({{shown(task, "id")},
                   {shown(task, "group")},
                   {state, colour_of(state)},
                   {step_text(task)},
                   {shown(task, "attempt")},
                   {age_text(raw_text(task, "created_at"), now)},
                   {shown(task, "error")}});
  }
  return table;
}

json restart_body(std::uint32_t from_step, const std::string& deadline) {
  body::Replay replay;
  if (from_step > 0) replay.from_step = from_step;
  json body = to_json_body(replay);
  if (!deadline.empty()) body["deadline"] = deadline;  // As it was typed.
  return body;
}

std::string log_text(const json& task, std::size_t last_lines) {
  const json& log = list(task, "log");
  const std::size_t skipped = last_lines == 0 || log.size() <= last_lines ? 0 : log.size() - last_lines;
  std::string out = skipped == 0 ? "" : "  \xE2\x80\xA6 " + counted(skipped, "line") + " before\n";
  for (std::size_t i = skipped; i < log.size(); ++i) {
    if (log[i].is_string()) out += "  " + safe_text(log[i].get_ref<const std::string&>()) + "\n";
  }
  return out;
}

std::string outputs_text(const json& task) {
  const json& context = member(task, "context");
  if (context.is_null() || (context.is_structured() && context.empty())) return "";
  return indented(json_text(context, true));
}

// One line for each attempt, across crashes and nodes:
//   2026-11-16T05:00:00Z  1 thumbnail #2  retried after 3s on a/01  exit code 75
std::string timeline_text(const json& attempts, const Style& style) {
  std::string out;
  for (const json& each : attempts) {
    const std::string outcome = shown(each, "outcome");
    const auto began = parse_time(raw_text(each, "began_at"));
    const auto ended = parse_time(raw_text(each, "ended_at"));
    std::string took;
    if (began && ended) {
      took = " after " + format_duration(std::chrono::floor<std::chrono::milliseconds>(Duration(*ended - *began)));
    }
    const bool is_good = outcome == "succeeded" || outcome == "skipped" || outcome == "running";
    out += "  " + shown(each, "began_at") + "  " + shown(each, "step") + " " + shown(each, "plugin") + " #" +
           shown(each, "attempt") + "  " + style.paint(is_good ? Colour::kGreen : Colour::kRed, outcome) + took +
           " on " + shown(each, "node");
    const std::string error = shown(each, "error");
    out += (error.empty() ? "" : "  " + error) + "\n";
    for (const json& line : list(each, "log")) {
      if (line.is_string())
        out += "      " + style.paint(Colour::kDim, safe_text(line.get_ref<const std::string&>())) + "\n";
    }
  }
  return out;
}

std::string artifacts_text(const json& task) {
  std::string out;
  for (const json& each : list(task, "artifacts")) {
    out += "  " + shown(each, "path") + "  (" + shown(each, "bytes") + " bytes)\n";
  }
  return out;
}

std::string task_text(const json& task, const json& attempts, WallTime now, int width, const Style& style) {
  std::string steps;
  for (const std::string& line : progress_lines(task, width, style)) steps += line + "\n";
  const std::string error = raw_text(task, "error");
  const json& payload = member(task, "payload");
  const bool has_payload = !payload.is_null() && !(payload.is_structured() && payload.empty());
  return header_text(task, now, style) + section("Steps", steps, style) +
         section("Error", indented(safe_text(error, Lines::kKeep)), style) +
         section("Payload", has_payload ? indented(json_text(payload, true)) : "", style) +
         section("Attempts", timeline_text(attempts, style), style) +
         section("Artifacts", artifacts_text(task), style) + section("Outputs", outputs_text(task), style) +
         section("Log", log_text(task, 0), style);
}

}  // namespace cohort
