#include "admin/explain_task.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cohort/base/text_time.h"

namespace cohort {
namespace {

using Reasons = std::vector<std::string>;

// A task without steps is completed when it comes, so only damage makes it poison.
bool is_damaged(const ChainTask& task) { return task.state == ChainState::kPoison && task.request.steps.empty(); }

std::string step_text(const ChainTask& task) {
  const ChainStep* step = task.current_step();
  if (step == nullptr) return "all steps are done";
  return "step " + std::to_string(task.step + 1) + " of " + std::to_string(task.request.steps.size()) + ", '" +
         step->plugin + "'";
}

std::string in_seconds(WallTime from, WallTime to) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(to - from);
  return format_duration(std::chrono::duration_cast<Duration>(left));
}

std::string names(const std::vector<std::string>& tasks) {
  std::string all;
  for (const std::string& each : tasks) all += (all.empty() ? "'" : ", '") + each + "'";
  return all.empty() ? "others" : all;
}

// A suspect has the node to itself, and everybody else waits for it.
void explain_gate(const ChainTask& task, NodeControl& control, Reasons& reasons) {
  const GateStatus gate = control.engine.gate();
  const bool waits_to_be_alone = std::ranges::find(gate.suspects, task.id()) != gate.suspects.end();
  if (waits_to_be_alone) {
    reasons.push_back("its step ran when two nodes died, so it must run alone; it waits for the gate, which " +
                      (gate.alone.empty() ? (gate.inside.empty() ? std::string("is free")
                                                                 : "the steps of " + names(gate.inside) + " hold")
                                          : "task '" + gate.alone + "' holds"));
  } else if (!gate.alone.empty() && gate.alone != task.id()) {
    reasons.push_back("it waits for the gate: task '" + gate.alone +
                      "' holds it, because its step ran when two nodes died and now runs alone");
  } else if (!gate.is_clear && !gate.suspects.empty() && task.state == ChainState::kReady) {
    reasons.push_back("it waits for the gate: the step of task '" + gate.suspects.front() +
                      "' ran when two nodes died and runs alone next, when the steps of " + names(gate.inside) +
                      " have ended");
  }
}

void explain_ready(const ChainTask& task, NodeControl& control, bool paused, WallTime now, Reasons& reasons) {
  const std::string group = "group '" + task.request.group + "'";
  if (paused) reasons.push_back(group + " is paused; `cohort resume` ends that, and deadlines wait meanwhile");
  if (task.due_at && *task.due_at > now) {
    reasons.push_back((task.attempt > 0 ? "the next attempt of " + step_text(task) : std::string("its start")) +
                      " is in " + in_seconds(now, *task.due_at));
  }
  if (!task.error.empty()) reasons.push_back("the last attempt failed: " + task.error);
  if (const auto fault = control.store.fault()) reasons.push_back("the node does no work: " + fault->message);
  explain_gate(task, control, reasons);
  const auto stats = control.executor.group_stats(task.request.group);
  const ResolvedLimits limits = stats ? stats->limits : control.executor.resolve(task.request.group);
  const std::uint32_t running = stats ? stats->running : 0;
  if (running >= limits.max_concurrency) {
    reasons.push_back(group + " runs " + std::to_string(running) + " of " + std::to_string(limits.max_concurrency) +
                      " tasks; its next one starts when one of them ends");
  }
  if (const ExecutorStats all = control.executor.stats(); all.running >= control.concurrency) {
    reasons.push_back("the node runs " + std::to_string(all.running) + " of " + std::to_string(control.concurrency) +
                      " tasks; groups take turns by their share");
  }
  if (reasons.empty()) reasons.emplace_back("nothing stands in its way: it is about to start");
}

void explain_end(const ChainTask& task, Reasons& reasons) {
  if (!task.error.empty()) reasons.push_back(task.error);
  if (is_damaged(task)) {
    reasons.push_back("`cohort dead-letters show " + task.id() + "` has what was in its row; submit it again");
  } else if (has_dead_letter(task.state)) {
    reasons.push_back("it stopped at " + step_text(task) + "; `cohort retry " + task.id() + "` goes on from there");
  }
}

std::string text_of(const ChainTask& task) {
  switch (task.state) {
    case ChainState::kPending: return "it waits for a message that names it, or for `cohort ready`";
    case ChainState::kReady: return "it waits to run " + step_text(task);
    case ChainState::kProcessing:
      return "it runs " + step_text(task) + ", attempt " + std::to_string(task.attempt) + ", on " + task.owner;
    case ChainState::kCompleted: return "it is completed";
    case ChainState::kFailed: return "it failed";
    case ChainState::kCancelled: return "it was cancelled";
    case ChainState::kExpired: return "its deadline passed before it could go on";
    case ChainState::kPoison:
      return is_damaged(task) ? "its row in the store cannot be read" : "one of its steps takes nodes down";
  }
  return {};
}

}  // namespace

nlohmann::json explain_task(const ChainTask& task, NodeControl& control, bool paused, WallTime now) {
  Reasons reasons;
  if (task.state == ChainState::kReady) explain_ready(task, control, paused, now, reasons);
  if (task.state == ChainState::kProcessing && task.cancel_requested) {
    reasons.emplace_back("somebody asked to cancel it; its step has been told to stop");
  }
  if (task.state == ChainState::kProcessing) explain_gate(task, control, reasons);
  if (is_final(task.state)) explain_end(task, reasons);
  return {{"task", task.id()}, {"state", to_string(task.state)}, {"text", text_of(task)}, {"reasons", reasons}};
}

}  // namespace cohort
