#include <algorithm>
#include <memory>
#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "admin/explain_task.h"
#include "admin/json_body.h"
#include "cohort/base/text_time.h"
#include "cohort/base/utf8.h"
#include "cohort/chain/task_json.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr std::size_t kMostAtOnce = 1000;

json submitted_json(const Submitted& submitted) {
  json out = {{"id", submitted.task_id}, {"state", to_string(submitted.state)}, {"existed", submitted.existed}};
  if (submitted.deadline) {
    out["deadline"] = *submitted.deadline == Duration::max() ? "none" : format_duration(*submitted.deadline);
  }
  if (!submitted.warning.empty()) out["warning"] = submitted.warning;
  return out;
}

json error_json(const Error& error) { return {{"error", json::parse(Problem::of(error).to_json())}}; }

void submit_one(NodeControl& control, const json& body, Respond respond) {
  Result<NewTask> task = task_from_json(body);
  if (!task) return respond(ServerResponse::of(task.error()));
  control.engine.submit(*std::move(task))
      .on_done([respond = std::move(respond)](const TaskResult<Submitted>& result) mutable {
        if (!result.ok()) return respond(refusal_of(error_of(result)));
        respond(json_response(submitted_json(*result.value), result.value->existed ? 200 : 201));
      });
}

// Each for itself: one that is wrong leaves the others alone.
void submit_many(NodeControl& control, const json& tasks, Respond respond) {
  if (!tasks.is_array() || tasks.size() > kMostAtOnce) {
    const std::string what = "'tasks' must be a list of at most " + std::to_string(kMostAtOnce) + " tasks";
    return respond(ServerResponse::of(Error{ErrorCode::kInvalid, what}));
  }
  std::vector<json> results(tasks.size());
  std::vector<NewTask> good;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Result<NewTask> task = task_from_json(tasks[i]);
    if (task) {
      good.push_back(*std::move(task));
      places.push_back(i);
    } else {
      results[i] = error_json(task.error());
    }
  }
  using All = std::vector<Result<Submitted>>;
  control.engine.submit_all(std::move(good))
      .on_done([respond = std::move(respond), results = std::move(results),
                places = std::move(places)](const TaskResult<All>& answers) mutable {
        if (!answers.ok()) return respond(ServerResponse::of(error_of(answers)));
        for (std::size_t i = 0; i < places.size(); ++i) {
          const Result<Submitted>& each = (*answers.value)[i];
          results[places[i]] = each ? submitted_json(*each) : error_json(each.error());
        }
        respond(json_response({{"results", results}}));
      });
}

void submit(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (control.state.load() != NodeState::kRunning) {
    return respond(ServerResponse::of(Error{ErrorCode::kUnavailable, "this node is stopping and takes no tasks"}));
  }
  Result<json> body = parse_body(request.body);
  if (!body) return respond(ServerResponse::of(body.error()));
  const auto tasks = body->find("tasks");
  if (tasks == body->end()) return submit_one(control, *body, std::move(respond));
  if (body->size() != 1) {
    return respond(ServerResponse::of(Error{ErrorCode::kInvalid, "beside 'tasks' there may be nothing else"}));
  }
  submit_many(control, *tasks, std::move(respond));
}

Result<TaskFilter> filter_of(const ServerRequest& request) {
  TaskFilter filter{
      .group = query(request, "group"), .tag = query(request, "tag"), .id_prefix = query(request, "id_prefix")};
  const auto state = query_state(request);
  if (!state) return state.error();
  filter.state = *state;
  const auto limit = query_number(request, "limit", 100, 1, 1000);
  if (!limit) return limit.error();
  const auto cursor = query_number(request, "cursor", 0, 1, std::uint64_t{1} << 62U);
  if (!cursor) return cursor.error();
  filter.limit = static_cast<std::uint32_t>(*limit);
  filter.before = *cursor;
  if (filter.id_prefix.size() > 4 * NewTask::kMaxIdLength || !is_utf8(filter.id_prefix)) {
    return Error{ErrorCode::kInvalid, "'id_prefix' must be UTF-8 of at most 128 characters"};
  }
  if (!filter.id_prefix.empty() && filter.before != 0) {
    return Error{ErrorCode::kConflict, "a list by 'id_prefix' is one page: leave 'cursor' out"};
  }
  return filter;
}

// What a list shows of a task: parameters, payloads, contexts and logs are for who asks for it alone.
json summary(const ChainTask& task) {
  json out = to_json(task);
  for (const char* large : {"payload", "context", "log"}) out.erase(large);
  json steps = json::array();
  for (const ChainStep& each : task.request.steps) steps.push_back({{"plugin", each.plugin}});
  out["steps"] = std::move(steps);
  return out;
}

// Reads a page in pieces until it is full or enough rows were looked at: then it has a cursor.
class PageReader : public std::enable_shared_from_this<PageReader> {
 public:
  PageReader(TaskStore& store, TaskFilter filter, Respond respond)
      : store_(store), filter_(std::move(filter)), respond_(std::move(respond)) {}

  void go_on() {
    TaskFilter piece = filter_;
    piece.limit = std::min(kPiece, filter_.limit - static_cast<std::uint32_t>(tasks_.size()));
    store_.list(std::move(piece), [self = shared_from_this()](Result<TaskPage> page) {
      if (!page) return self->respond_(ServerResponse::of(page.error()));
      for (const ChainTask& each : page->tasks) self->tasks_.push_back(summary(each));
      self->filter_.before = page->next;
      const bool is_full = self->tasks_.size() >= self->filter_.limit || ++self->pieces_ == kMaxPieces;
      if (page->next != 0 && !is_full) return self->go_on();
      self->tell(page->next != 0);
    });
  }

 private:
  static constexpr std::uint32_t kPiece = 100;
  static constexpr std::uint32_t kMaxPieces = 10;

  void tell(bool more) {
    json page = {{"tasks", std::move(tasks_)}};
    if (more) page["cursor"] = std::to_string(filter_.before);
    respond_(json_response(page));
  }

  TaskStore& store_;
  TaskFilter filter_;
  Respond respond_;
  json tasks_ = json::array();
  std::uint32_t pieces_ = 0;
};

void list(NodeControl& control, const ServerRequest& request, Respond respond) {
  Result<TaskFilter> filter = filter_of(request);
  if (!filter) return respond(ServerResponse::of(filter.error()));
  std::make_shared<PageReader>(control.store, *std::move(filter), std::move(respond))->go_on();
}

void get(NodeControl& control, const ServerRequest& request, Respond respond) {
  control.store.get(request.arguments[0], [respond = std::move(respond)](Result<ChainTask> task) mutable {
    respond(task ? json_response(to_json(*task)) : ServerResponse::of(task.error()));
  });
}

void attempts(NodeControl& control, const ServerRequest& request, Respond respond) {
  control.store.get(request.arguments[0], [&control, id = request.arguments[0],
                                           respond = std::move(respond)](Result<ChainTask> task) mutable {
    if (!task) return respond(ServerResponse::of(task.error()));
    control.store.attempts(
        id, [task = *std::move(task), respond = std::move(respond)](Result<std::vector<AttemptRecord>> ended) mutable {
          if (!ended) return respond(ServerResponse::of(ended.error()));
          json list = json::array();
          for (const AttemptRecord& each : *ended) list.push_back(to_json(each));
          if (task.attempt_open && task.current_step() != nullptr) {
            list.push_back({{"step", task.step + 1},
                            {"attempt", task.attempt},
                            {"plugin", task.current_step()->plugin},
                            {"node", task.owner},
                            {"began_at", format_time(task.attempt_began_at.value_or(task.created_at))},
                            {"outcome", "running"}});
          }
          respond(json_response({{"task", task.id()}, {"attempts", std::move(list)}}));
        });
  });
}

void make_ready(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (const auto body = read_body<body::NoBody>(request); !body) return respond(ServerResponse::of(body.error()));
  control.engine.ready(request.arguments[0])
      .on_done([respond = std::move(respond)](const TaskResult<ChainTask>& task) mutable {
        respond(task.ok() ? json_response(to_json(*task.value)) : ServerResponse::of(error_of(task)));
      });
}

void cancel(NodeControl& control, const ServerRequest& request, Respond respond) {
  const Result<body::Reason> body = read_body<body::Reason>(request);
  if (!body) return respond(ServerResponse::of(body.error()));
  control.engine.cancel(request.arguments[0], body->reason.value_or("asked for over HTTP"))
      .on_done([respond = std::move(respond)](const TaskResult<ChainRow>& row) mutable {
        if (!row.ok()) return respond(ServerResponse::of(error_of(row)));
        respond(
            json_response({{"state", to_string(row.value->state)}, {"cancel_requested", row.value->cancel_requested}}));
      });
}

void explain(NodeControl& control, const ServerRequest& request, Respond respond) {
  control.store.get(request.arguments[0], [&control, respond = std::move(respond)](Result<ChainTask> task) mutable {
    if (!task) return respond(ServerResponse::of(task.error()));
    const std::string group = task->request.group;
    control.store.group_count(group, [&control, task = *std::move(task),
                                      respond = std::move(respond)](const Result<GroupCounts>& counts) mutable {
      const bool is_paused = counts && counts->paused;
      respond(json_response(explain_task(task, control, is_paused, system_wall_clock().now())));
    });
  });
}

}  // namespace

void replay_task(NodeControl& control, const ServerRequest& request, Respond respond) {
  const Result<body::Replay> body = read_body<body::Replay>(request);
  if (!body) return respond(ServerResponse::of(body.error()));
  ReplayRequest replay{.task_id = request.arguments[0], .deadline = body->deadline};
  if (body->from_step) replay.from_step = *body->from_step - 1;
  control.engine.replay(std::move(replay))
      .on_done([respond = std::move(respond)](const TaskResult<ChainTask>& task) mutable {
        respond(task.ok() ? json_response(to_json(*task.value)) : refusal_of(error_of(task)));
      });
}

void add_task_routes(NodeControl& control, RouteHandlers& handlers) {
  add_route(control, handlers, Operation::kSubmitTasks, submit);
  add_route(control, handlers, Operation::kListTasks, list);
  add_route(control, handlers, Operation::kGetTask, get);
  add_route(control, handlers, Operation::kGetAttempts, attempts);
  add_route(control, handlers, Operation::kReadyTask, make_ready);
  add_route(control, handlers, Operation::kCancelTask, cancel);
  add_route(control, handlers, Operation::kRetryTask, replay_task);
  add_route(control, handlers, Operation::kExplainTask, explain);
}

}  // namespace cohort
