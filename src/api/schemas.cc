#include "api/schemas.h"

#include "api/body_json.h"

namespace cohort {

using namespace schema;

namespace {

constexpr const char* kLengthPattern =
    "^[1-9][0-9]{0,6}(ms|us|ns|s|m)$|^[1-9][0-9]{0,5}h$|^[1-9][0-9]{0,4}d$|^[1-9][0-9]{0,3}h[1-9][0-9]{0,3}m$|"
    "^[1-9][0-9]{0,3}[.][0-9]{1,6}s$";
constexpr const char* kDelayPattern =
    "^[0-9]{1,7}(ms|us|ns|s|m)$|^[0-9]{1,6}h$|^[0-9]{1,5}d$|^[1-9][0-9]{0,3}h[1-9][0-9]{0,3}m$|"
    "^[0-9]{1,4}[.][0-9]{1,6}s$";

Json pattern(const char* regex, const char* meaning, const char* example) {
  return {{"type", "string"}, {"pattern", regex}, {"description", meaning}, {"examples", {example}}};
}

Json state() { return named("State"); }
Json texts() { return list(text()); }

Json new_step() {
  const Json with_parameters = request(
      {{"plugin", text(1024, 1), kAlways}, {"parameters", object()}, {"timeout", length()}, {"retry", named("Retry")}});
  return described(any_of({text(1024, 1), with_parameters}), "A plugin with parameters, or only its name.");
}

Json new_task() {
  Json id =
      described(text(128), "Made if it is empty or not given. @ and a number name a task by its sequence number.");
  id["not"] = {{"pattern", "^@[0-9]+$"}};
  Json out =
      request({{"id", id},
               {"group", text(1024, 1), kAlways},
               {"session", text(256)},
               {"file", described(text(4096), "file:, http: or https:")},
               {"payload", any("Any JSON.")},
               {"steps", list(named("NewStep"), 100)},
               {"chain", described(text(256), "A chain that the configuration names, instead of steps.")},
               {"parameters", described(object(), "The values of that chain's parameters.")},
               {"deadline",
                described(length(), "After that no step starts any more. chains.deadline of the node if not given.")},
               {"deadline_at", described(time(), "Instead of deadline.")},
               {"priority", word({"high", "normal", "low"})},
               {"tags", list(text(128, 1), 32)},
               {"start_at", time()},
               {"idempotency_key", text(256)},
               {"pending", flag()}});
  out["not"] = {{"required", {"deadline", "deadline_at"}}};
  return out;
}

Json task() {
  return answer({{"id", text(), kAlways},
                 {"group", text(), kAlways},
                 {"state", state(), kAlways},
                 {"sequence", whole(), kAlways},
                 {"step", described({{"type", "integer"}, {"minimum", 1}},
                                    "The current step, counted from 1; missing when all are done.")},
                 {"steps_done", described(whole(), "How many steps have their checkpoint."), kAlways},
                 {"attempt", whole(), kAlways},
                 {"steps", list(named("Step")), kAlways},
                 {"chain", text()},
                 {"parameters", object()},
                 {"created_at", time(), kAlways},
                 {"deadline_at", text()},
                 {"deadline", text()},
                 {"session", text()},
                 {"file", text()},
                 {"priority", text()},
                 {"tags", texts()},
                 {"idempotency_key", text()},
                 {"start_at", time()},
                 {"progress", number()},
                 {"progress_note", text()},
                 {"error", text()},
                 {"context", object()},
                 {"payload", any()},
                 {"started_at", time()},
                 {"ended_at", time()},
                 {"due_at", time()},
                 {"ran", text()},
                 {"owner", text()},
                 {"message_id", text()},
                 {"cancel_requested", flag()},
                 {"artifacts", list(named("Artifact"))},
                 {"log", texts()}});
}

Json attempt() {
  return answer({{"step", whole(), kAlways},
                 {"attempt", whole(), kAlways},
                 {"plugin", text(), kAlways},
                 {"node", text(), kAlways},
                 {"began_at", time(), kAlways},
                 {"ended_at", time()},
                 {"outcome",
                  word({"running", "succeeded", "skipped", "retried", "failed", "interrupted", "overran", "crashed",
                        "cancelled", "expired", "poison"}),
                  kAlways},
                 {"error", text()},
                 {"log", texts()}});
}

Json dead_letter() {
  return answer({{"task_id", text(), kAlways},
                 {"group", text(), kAlways},
                 {"state", state(), kAlways},
                 {"reason", text(), kAlways},
                 {"step", whole(), kAlways},
                 {"attempts", whole(), kAlways},
                 {"failed_at", time(), kAlways},
                 {"plugin", text()},
                 {"message_id", text()},
                 {"node", text()},
                 {"progress", number()},
                 {"log", texts()},
                 {"original", described(text(), "The message or row that could not be read. Not in lists.")}});
}

Json group() {
  return answer({{"group", text(), kAlways},
                 {"paused", flag(), kAlways},
                 {"pending", whole(), kAlways},
                 {"ready", whole(), kAlways},
                 {"processing", whole(), kAlways},
                 {"running", whole(), kAlways},
                 {"max_concurrency", whole(), kAlways},
                 {"max_in_flight", whole()},
                 {"weight", number(), kAlways},
                 {"estimated_wait", described(text(), "Of a new task. Missing without a backlog.")},
                 {"rate", object()}});
}

Json node() {
  return answer({{"node", text(), kAlways},
                 {"version", text(), kAlways},
                 {"boot", text(), kAlways},
                 {"state", text(), kAlways},
                 {"ready", flag(), kAlways},
                 {"status", text(), kAlways},
                 {"problem", described(text(), "What is wrong, and what to do.")},
                 {"uptime_s", number()},
                 {"store", answer({{"kind", text(), kAlways}, {"folder", text()}}), kAlways},
                 {"plugins", texts()},
                 {"concurrency", whole(), kAlways},
                 {"chains",
                  answer({{"running", whole(), kAlways},
                          {"kept", whole(), kAlways},
                          {"completed", whole(), kAlways},
                          {"failed", whole(), kAlways},
                          {"retried", whole(), kAlways},
                          {"has_lease", flag(), kAlways}}),
                  kAlways},
                 {"tasks", object(), kAlways},
                 {"dead_letters", whole(), kAlways},
                 {"damaged_rows", whole(), kAlways}});
}

}  // namespace

Json api_schemas() {
  const Json one = answer({{"id", text(), kAlways},
                           {"state", state(), kAlways},
                           {"existed", flag(), kAlways},
                           {"deadline", described(text(), "Of a task that was made now: a length, or none.")},
                           {"warning", described(text(), "Something that the submitter should know.")}});
  return {
      {"State", word({"pending", "ready", "processing", "completed", "failed", "cancelled", "expired", "poison"})},
      {"EventKind", word({"completed", "failed", "cancelled", "expired", "poison", "step_completed", "replayed",
                          "taken_over", "refused"})},
      {"Length", pattern(kLengthPattern, "A length of time above 0: 1h30m, 5m, 2.5s, 500ms, 7d", "30s")},
      {"Delay", pattern(kDelayPattern, "A length of time: 0s, 500ms, 5m", "1s")},
      {"Retry", request({{"max_retries", whole(0, 1'000'000)},
                         {"backoff", named("Delay")},
                         {"multiplier", {{"type", "number"}, {"minimum", 1}, {"maximum", 1000}}},
                         {"max_backoff", named("Delay")},
                         {"jitter", {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}}})},
      {"NewStep", new_step()},
      {"NewTask", new_task()},
      {"NewTasks",
       any_of({named("NewTask"),
               request({{"tasks",
                         described(list(any(), 1000), "Each for itself: one that is refused leaves the others alone."),
                         kAlways}})})},
      {"SubmittedTask", one},
      {"Refused", answer({{"error", named("Problem"), kAlways}})},
      {"Submitted", any_of({named("SubmittedTask"),
                            answer({{"results", list(any_of({named("SubmittedTask"), named("Refused")})), kAlways}})})},
      {"Step",
       answer({{"plugin", text(), kAlways}, {"parameters", object()}, {"timeout", text()}, {"retry", object()}})},
      {"Artifact", answer({{"step", whole(), kAlways},
                           {"name", text(), kAlways},
                           {"path", text(), kAlways},
                           {"bytes", whole(), kAlways}})},
      {"Task", task()},
      {"TaskPage", answer({{"tasks", list(named("Task")), kAlways}, {"cursor", text()}})},
      {"Attempt", attempt()},
      {"Attempts", answer({{"task", text(), kAlways}, {"attempts", list(named("Attempt")), kAlways}})},
      {body::Reason::kName, body_schema<body::Reason>()},
      {"Cancelled", answer({{"state", state(), kAlways}, {"cancel_requested", flag(), kAlways}})},
      {body::Replay::kName, body_schema<body::Replay>()},
      {"Explanation", answer({{"task", text(), kAlways},
                              {"state", state(), kAlways},
                              {"text", text(), kAlways},
                              {"reasons", texts(), kAlways}})},
      {"ChainParameter", answer({{"name", text(), kAlways},
                                 {"type", word({"string", "integer", "number", "boolean"}), kAlways},
                                 {"required", flag(), kAlways},
                                 {"default", any()},
                                 {"minimum", number()},
                                 {"maximum", number()},
                                 {"one_of", list(any())},
                                 {"description", text()}})},
      {"Chain", answer({{"name", text(), kAlways},
                        {"description", text()},
                        {"parameters", list(named("ChainParameter")), kAlways},
                        {"steps", list(named("Step")), kAlways}})},
      {"ChainList", answer({{"chains", list(named("Chain")), kAlways}})},
      {"DeadLetter", dead_letter()},
      {"DeadLetterPage", answer({{"dead_letters", list(named("DeadLetter")), kAlways}, {"cursor", text()}})},
      {body::ReplayFilter::kName, body_schema<body::ReplayFilter>()},
      {"Replayed", answer({{"matched", whole(), kAlways},
                           {"replayed", whole(), kAlways},
                           {"dry_run", flag(), kAlways},
                           {"tasks", texts(), kAlways},
                           {"failed", list(object()), kAlways},
                           {"cursor", text()}})},
      {"Group", group()},
      {"GroupList", answer({{"groups", list(named("Group")), kAlways}, {"cursor", text()}})},
      {body::Resize::kName, body_schema<body::Resize>()},
      {"Node", node()},
      {"Health", answer({{"status", text(), kAlways}, {"problem", text()}})},
      {"OpenApi", object()},
      {"EventStream",
       described(text(),
                 "id: SEQUENCE, event: KIND, data: {sequence, at, kind, task_id, group, step, detail}, where KIND is "
                 "an EventKind; or event: gap, data: {from, to}")},
      {"Problem", answer({{"type", text(), kAlways},
                          {"title", text(), kAlways},
                          {"status", whole(), kAlways},
                          {"code", text(), kAlways},
                          {"detail", text(), kAlways}})},
  };
}

}  // namespace cohort
