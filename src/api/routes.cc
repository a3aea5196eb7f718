#include "api/routes.h"

#include <utility>

#include "api/bodies.h"
#include "cohort/base/assert.h"
#include "cohort/base/percent.h"

namespace cohort {
namespace {

const std::vector<QueryParameter> kPage = {{"limit", "How many at most: 1 to 1000, 100 if not given.",
                                            R"({"type": "integer", "minimum": 1, "maximum": 1000})"},
                                           {"cursor", "Go on where the page before ended."}};
const std::vector<QueryParameter> kTaskPage = {
    kPage[0],
    {"cursor", "Go on where the page before ended.",
     R"({"type": "integer", "minimum": 1, "maximum": 4611686018427387904})"}};

std::vector<QueryParameter> filtered(std::vector<QueryParameter> filters,
                                     const std::vector<QueryParameter>& page = kPage) {
  filters.insert(filters.end(), page.begin(), page.end());
  return filters;
}

constexpr std::string_view kState = R"({"$ref": "#/components/schemas/State"})";
constexpr std::string_view kLetterState = R"({"type": "string", "enum": ["failed", "expired", "poison"]})";
constexpr std::string_view kSequence = R"({"type": "integer", "minimum": 0, "maximum": 4611686018427387904})";

std::vector<ApiRoute> make_routes() {
  return {
      {Operation::kSubmitTasks,
       "submit_tasks",
       "POST",
       "/v1/tasks",
       "Submits one task, or many as {\"tasks\": [...]}. Durable when it answers.",
       {},
       "NewTasks",
       "Submitted",
       {200, 201}},
      {Operation::kListTasks,
       "list_tasks",
       "GET",
       "/v1/tasks",
       "Tasks, the newest first, without payloads, contexts, logs and parameters. Looks at a bounded number of rows: a "
       "page may be empty and have a cursor.",
       filtered({{"group", "Only of this group."},
                 {"state", "Only in this state.", kState},
                 {"tag", "Only with this tag."},
                 {"id_prefix", "Only those whose id begins so, by id. Goes without other filters and has one page."}},
                kTaskPage),
       {},
       "TaskPage"},
      {Operation::kGetTask, "get_task", "GET", "/v1/tasks/{id}", "One task, whole.", {}, {}, "Task"},
      {Operation::kGetAttempts,
       "get_attempts",
       "GET",
       "/v1/tasks/{id}/attempts",
       "The attempts of its steps, the oldest first, across crashes and nodes: the last hundred.",
       {},
       {},
       "Attempts"},
      {Operation::kReadyTask,
       "ready_task",
       "POST",
       "/v1/tasks/{id}/ready",
       "Makes a task ready that was submitted as pending.",
       {},
       {},
       "Task"},
      {Operation::kCancelTask,
       "cancel_task",
       "POST",
       "/v1/tasks/{id}/cancel",
       "Cancels a waiting task at once. If the task runs, its step is asked to stop.",
       {},
       body::Reason::kName,
       "Cancelled"},
      {Operation::kRetryTask,
       "retry_task",
       "POST",
       "/v1/tasks/{id}/retry",
       "Makes an ended task ready again, from the step at which it stopped or an earlier step.",
       {},
       body::Replay::kName,
       "Task"},
      {Operation::kExplainTask,
       "explain_task",
       "GET",
       "/v1/tasks/{id}/explain",
       "Explains in sentences why a task is in its state.",
       {},
       {},
       "Explanation"},
      {Operation::kListChains,
       "list_chains",
       "GET",
       "/v1/chains",
       "Lists the chains that the configuration names.",
       {},
       {},
       "ChainList"},
      {Operation::kListDeadLetters,
       "list_dead_letters",
       "GET",
       "/v1/dead-letters",
       "Lists dead letters: what is kept of tasks that failed, expired or are poison.",
       filtered({{"group", "Only of this group."},
                 {"state", "Only failed, expired or poison ones.", kLetterState},
                 {"plugin", "Only those that failed in a step of this plugin."}}),
       {},
       "DeadLetterPage"},
      {Operation::kGetDeadLetter,
       "get_dead_letter",
       "GET",
       "/v1/dead-letters/{task}",
       "Shows one dead letter.",
       {},
       {},
       "DeadLetter"},
      {Operation::kReplayDeadLetters,
       "replay_dead_letters",
       "POST",
       "/v1/dead-letters/replay",
       "Replays the tasks of all matching dead letters. With dry_run, only lists them.",
       {},
       body::ReplayFilter::kName,
       "Replayed"},
      {Operation::kReplayDeadLetter,
       "replay_dead_letter",
       "POST",
       "/v1/dead-letters/{task}/replay",
       "Replays the task of a dead letter, from the step that failed or an earlier step.",
       {},
       body::Replay::kName,
       "Task"},
      {Operation::kDiscardDeadLetter,
       "discard_dead_letter",
       "DELETE",
       "/v1/dead-letters/{task}",
       "Discards a dead letter.",
       {},
       {},
       {},
       {204}},
      {Operation::kListGroups,
       "list_groups",
       "GET",
       "/v1/groups",
       "Lists the groups that are configured, have open tasks or are paused, by name.",
       kPage,
       {},
       "GroupList"},
      {Operation::kGetGroup, "get_group", "GET", "/v1/groups/{group}", "Shows one group.", {}, {}, "Group"},
      {Operation::kPauseGroup,
       "pause_group",
       "POST",
       "/v1/groups/{group}/pause",
       "Stops starting tasks of a group. Running tasks go on; deadlines are extended by the pause.",
       {},
       body::Reason::kName,
       "Group"},
      {Operation::kResumeGroup,
       "resume_group",
       "POST",
       "/v1/groups/{group}/resume",
       "Ends the pause of a group.",
       {},
       {},
       "Group"},
      {Operation::kResizeGroup,
       "resize_group",
       "POST",
       "/v1/groups/{group}/resize",
       "Changes limits of a group, on all nodes and also for nodes that start later.",
       {},
       body::Resize::kName,
       "Group"},
      {Operation::kStreamEvents,
       "stream_events",
       "GET",
       "/v1/events",
       "Streams the events of tasks as server-sent events. A reader that reconnects with Last-Event-ID gets every "
       "event "
       "that is still kept, and an event 'gap' if some are not. A reader that is too slow is disconnected.",
       {{"after", "Begin after this sequence; 0: with the oldest that is kept. Not given: with what is new.",
         kSequence},
        {"group", "Only of this group."},
        {"task", "Only of this task."}},
       {},
       "EventStream"},
      {Operation::kGetNode, "get_node", "GET", "/v1/node", "Shows the state of this node.", {}, {}, "Node"},
      {Operation::kGetOpenApi,
       "get_openapi",
       "GET",
       "/v1/openapi.json",
       "Gives this OpenAPI document.",
       {},
       {},
       "OpenApi"},
      {Operation::kHealthz, "healthz", "GET", "/healthz", "Answers 200 while the process runs.", {}, {}, "Health"},
      {Operation::kReadyz,
       "readyz",
       "GET",
       "/readyz",
       "Answers 200 if the node takes work, and 503 while it starts, drains or cannot write.",
       {},
       {},
       "Health",
       {200, 503}},
  };
}

// What stands for the placeholders, or nothing if the path is another.
bool matches(std::string_view path, const std::vector<std::string>& segments, std::vector<std::string>& arguments) {
  arguments.clear();
  for (const std::string& segment : segments) {
    if (path.empty()) return false;
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(part.size());
    if (part.starts_with('{')) {
      if (segment.empty()) return false;
      arguments.push_back(segment);
    } else if (part != segment) {
      return false;
    }
  }
  return path.empty();
}

}  // namespace

std::span<const ApiRoute> api_routes() {
  static const std::vector<ApiRoute> routes = make_routes();
  return routes;
}

const ApiRoute& api_route(Operation operation) {
  const ApiRoute& found = api_routes()[static_cast<std::size_t>(operation)];
  COHORT_ASSERT(found.id == operation, "the table of routes is in the order of Operation");
  return found;
}

std::string path_of(Operation operation, std::span<const std::string> arguments) {
  const std::string_view path = api_route(operation).path;
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < path.size();) {
    if (path[at] != '{') {
      out += path[at++];
      continue;
    }
    COHORT_ASSERT(used < arguments.size(), "a path has an argument for each placeholder");
    const std::string& argument = arguments[used++];
    // A segment of dots alone would be taken for a way up.
    out += argument == "." ? "%2E" : argument == ".." ? "%2E%2E" : percent_encode(argument);
    at = path.find('}', at) + 1;
  }
  COHORT_ASSERT(used == arguments.size(), "a path has a placeholder for each argument");
  return out;
}

MatchedRoute match_route(std::string_view method, const Target& target) {
  MatchedRoute matched;
  std::vector<std::string> arguments;
  bool has_literal =
      false;  // "/v1/dead-letters/replay" is that path, although it also looks like "/v1/dead-letters/{task}".
  for (const ApiRoute& route : api_routes()) {
    if (!matches(route.path, target.segments, arguments)) continue;
    if (arguments.empty() && !has_literal) matched.allowed.clear();
    if (!arguments.empty() && has_literal) continue;
    has_literal = arguments.empty();
    matched.allowed.push_back(route.method);
    if (route.method == "GET") matched.allowed.emplace_back("HEAD");
    const bool is_asked = route.method == method || (route.method == "GET" && method == "HEAD");
    if (matched.route != nullptr || !is_asked) continue;
    matched.route = &route;
    matched.arguments = std::move(arguments);
  }
  return matched;
}

}  // namespace cohort
