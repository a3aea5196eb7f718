#include <algorithm>
#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "admin/json_body.h"

namespace cohort {
namespace {

using nlohmann::json;
using Counts = Result<std::vector<GroupCounts>>;

constexpr std::size_t kLongestKey = 1024;

json group_json(NodeControl& control, const GroupCounts& counts) {
  const auto stats = control.executor.group_stats(counts.group);
  const ResolvedLimits limits = stats ? stats->limits : control.executor.resolve(counts.group);
  json group = {{"group", counts.group},
                {"paused", counts.paused},
                {"pending", counts.pending},
                {"ready", counts.ready},
                {"processing", counts.processing},
                {"running", stats ? stats->running : 0},
                {"max_concurrency", limits.max_concurrency},
                {"weight", limits.weight}};
  if (limits.max_in_flight != kUnlimited) group["max_in_flight"] = limits.max_in_flight;
  if (limits.rate) group["rate"] = {{"count", limits.rate->count}};
  return group;
}

void list(NodeControl& control, const ServerRequest& request, Respond respond) {
  const auto limit = query_number(request, "limit", 100, 1, 1000);
  if (!limit) return respond(ServerResponse::of(limit.error()));
  control.store.group_counts([&control, limit = *limit, after = query(request, "cursor"),
                              respond = std::move(respond)](Counts counts) mutable {
    if (!counts) return respond(ServerResponse::of(counts.error()));
    json groups = json::array();
    auto each = std::ranges::upper_bound(*counts, after, {}, &GroupCounts::group);
    for (; each != counts->end() && groups.size() < limit; ++each) groups.push_back(group_json(control, *each));
    json page = {{"groups", std::move(groups)}};
    if (each != counts->end()) page["cursor"] = (each - 1)->group;
    respond(json_response(page));
  });
}

// Any name is a group: one that nobody has used has nothing open.
void show(NodeControl& control, std::string name, Respond respond) {
  control.store.group_counts([&control, name = std::move(name), respond = std::move(respond)](Counts counts) mutable {
    if (!counts) return respond(ServerResponse::of(counts.error()));
    const auto at = std::ranges::find(*counts, name, &GroupCounts::group);
    respond(json_response(group_json(control, at != counts->end() ? *at : GroupCounts{.group = name})));
  });
}

void get(NodeControl& control, const ServerRequest& request, Respond respond) {
  show(control, request.arguments[0], std::move(respond));
}

void show_after(NodeControl& control, const std::string& name, const TaskHandle<void>& change, Respond respond) {
  change.on_done([&control, name, respond = std::move(respond)](const TaskResult<void>& changed) mutable {
    if (!changed.ok()) return respond(ServerResponse::of(error_of(changed)));
    show(control, name, std::move(respond));
  });
}

bool refuses_name(const ServerRequest& request, Respond& respond) {
  if (request.arguments[0].size() <= kLongestKey) return false;
  respond(ServerResponse::of(Error{ErrorCode::kInvalid, "a group's name has at most 1024 bytes"}));
  return true;
}

void pause(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  Result<json> body = parse_body(request.body);
  if (!body) return respond(ServerResponse::of(body.error()));
  JsonBody members(*body);
  static_cast<void>(members.text("reason", 1000));
  if (const auto error = members.error()) return respond(ServerResponse::of(*error));
  show_after(control, request.arguments[0], control.engine.pause_group(request.arguments[0]), std::move(respond));
}

void resume(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  Result<json> body = parse_body(request.body);
  if (!body) return respond(ServerResponse::of(body.error()));
  if (const auto error = JsonBody(*body).error()) return respond(ServerResponse::of(*error));
  show_after(control, request.arguments[0], control.engine.resume_group(request.arguments[0]), std::move(respond));
}

void resize(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  Result<json> body = parse_body(request.body);
  if (!body) return respond(ServerResponse::of(body.error()));
  JsonBody members(*body);
  GroupLimits limits;
  limits.max_concurrency = members.count("max_concurrency", 1, 1'000'000);
  limits.max_in_flight = members.count("max_in_flight", 1, 1'000'000);
  limits.weight = members.number("weight", 0, 1'000'000);
  if (const auto error = members.error()) return respond(ServerResponse::of(*error));
  if (limits == GroupLimits{}) {
    const Error nothing{ErrorCode::kInvalid, "say what to change: max_concurrency, max_in_flight, weight"};
    return respond(ServerResponse::of(nothing));
  }
  show_after(control, request.arguments[0], control.engine.resize_group(request.arguments[0], limits),
             std::move(respond));
}

}  // namespace

void add_group_routes(NodeControl& control, RouteHandlers& handlers) {
  add_route(control, handlers, "list_groups", list);
  add_route(control, handlers, "get_group", get);
  add_route(control, handlers, "pause_group", pause);
  add_route(control, handlers, "resume_group", resume);
  add_route(control, handlers, "resize_group", resize);
}

}  // namespace cohort
