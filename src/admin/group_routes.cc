#include <algorithm>
#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"
#include "admin/json_body.h"
#include "cohort/base/log.h"
#include "cohort/base/text_time.h"
#include "cohort/base/utf8.h"

namespace cohort {
namespace {

using nlohmann::json;
using Counts = Result<std::vector<GroupCounts>>;

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
  if (const auto wait = control.engine.estimated_wait(counts.group)) {
    group["estimated_wait"] = format_duration(std::chrono::ceil<std::chrono::seconds>(*wait));
  }
  if (limits.rate) group["rate"] = {{"count", std::uint32_t{limits.rate->count}}};
  return group;
}

// Those that are configured and have nothing open, in their places by name. Not behind a page that the store has
// filled.
void add_configured(const NodeControl& control, const std::string& after, std::size_t wanted,
                    std::vector<GroupCounts>& counts) {
  const bool is_cut = counts.size() >= wanted;
  const std::string last = is_cut ? counts.back().group : "";
  const std::size_t stored = counts.size();
  for (const std::string& name : control.configured_groups) {
    if (name <= after || (is_cut && name > last)) continue;
    const auto end = counts.begin() + static_cast<std::ptrdiff_t>(stored);
    if (std::ranges::binary_search(counts.begin(), end, name, {}, &GroupCounts::group)) continue;
    counts.push_back({.group = name});
  }
  std::ranges::sort(counts, {}, &GroupCounts::group);
}

void list(NodeControl& control, const ServerRequest& request, Respond respond) {
  const auto limit = query_number(request, "limit", 100, 1, 1000);
  if (!limit) return respond(ServerResponse::of(limit.error()));
  // One more than asked for tells whether there is another page.
  const auto wanted = static_cast<std::uint32_t>(*limit) + 1;
  const std::string after = query(request, "cursor");
  control.store.group_counts(after, wanted,
                             [&control, wanted, after, respond = std::move(respond)](Counts counts) mutable {
                               if (!counts) return respond(ServerResponse::of(counts.error()));
                               add_configured(control, after, wanted, *counts);
                               const bool more = counts->size() >= wanted;
                               if (more) counts->resize(wanted - 1);
                               json groups = json::array();
                               for (const GroupCounts& each : *counts) groups.push_back(group_json(control, each));
                               json page = {{"groups", std::move(groups)}};
                               if (more) page["cursor"] = counts->back().group;
                               respond(json_response(page));
                             });
}

// A group is there if it is configured or resized, or if the node has any task of it.
bool is_known(NodeControl& control, const GroupCounts& counts) {
  if (counts.pending + counts.ready + counts.processing != 0 || counts.paused) return true;
  if (std::ranges::binary_search(control.configured_groups, counts.group)) return true;
  const LimitSources sources = control.executor.resolve(counts.group).sources;
  return sources.max_concurrency == LimitSource::kChanged || sources.max_in_flight == LimitSource::kChanged ||
         sources.weight == LimitSource::kChanged;
}

void show(NodeControl& control, std::string name, Respond respond) {
  control.store.group_count(
      std::move(name), [&control, respond = std::move(respond)](Result<GroupCounts> counts) mutable {
        respond(counts ? json_response(group_json(control, *counts)) : ServerResponse::of(counts.error()));
      });
}

void show_known(NodeControl& control, const std::string& name, Respond respond) {
  control.store.group_count(name, [&control, respond = std::move(respond)](Result<GroupCounts> counts) mutable {
    if (!counts) return respond(ServerResponse::of(counts.error()));
    if (is_known(control, *counts)) return respond(json_response(group_json(control, *counts)));
    const std::string group = counts->group;
    control.store.list(
        {.group = group, .limit = 1},
        [&control, counts = *std::move(counts), respond = std::move(respond)](const Result<TaskPage>& page) mutable {
          if (!page) return respond(ServerResponse::of(page.error()));
          if (page->tasks.empty() && page->next == 0) {
            return respond(ServerResponse::of(Error{
                ErrorCode::kNotFound,
                "there is no group '" + counts.group + "': it is not configured and the node has no task of it"}));
          }
          respond(json_response(group_json(control, counts)));
        });
  });
}

bool refuses_name(const ServerRequest& request, Respond& respond) {
  if (utf8_characters(request.arguments[0]) <= NewTask::kMaxGroupLength && is_utf8(request.arguments[0])) return false;
  respond(ServerResponse::of(Error{ErrorCode::kInvalid, "a group's name is UTF-8 of at most 1024 characters"}));
  return true;
}

void get(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  show_known(control, request.arguments[0], std::move(respond));
}

void show_after(NodeControl& control, const std::string& name, const TaskHandle<void>& change, Respond respond) {
  change.on_done([&control, name, respond = std::move(respond)](const TaskResult<void>& changed) mutable {
    if (!changed.ok()) return respond(ServerResponse::of(error_of(changed)));
    show(control, name, std::move(respond));
  });
}

void pause(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  const Result<body::Reason> body = read_body<body::Reason>(request);
  if (!body) return respond(ServerResponse::of(body.error()));
  if (body->reason) {
    COHORT_LOG(kInfo, "node", "a pause of the group was asked for", {"group", request.arguments[0]},
               {"reason", *body->reason});
  }
  show_after(control, request.arguments[0], control.engine.pause_group(request.arguments[0]), std::move(respond));
}

void resume(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  if (const auto body = read_body<body::NoBody>(request); !body) return respond(ServerResponse::of(body.error()));
  show_after(control, request.arguments[0], control.engine.resume_group(request.arguments[0]), std::move(respond));
}

void resize(NodeControl& control, const ServerRequest& request, Respond respond) {
  if (refuses_name(request, respond)) return;
  const Result<body::Resize> body = read_body<body::Resize>(request);
  if (!body) return respond(ServerResponse::of(body.error()));
  GroupLimits limits;
  limits.max_concurrency = body->max_concurrency;
  limits.max_in_flight = body->max_in_flight;
  limits.weight = body->weight;
  if (limits == GroupLimits{}) {
    const Error nothing{ErrorCode::kInvalid, "say what to change: max_concurrency, max_in_flight, weight"};
    return respond(ServerResponse::of(nothing));
  }
  show_after(control, request.arguments[0], control.engine.resize_group(request.arguments[0], limits),
             std::move(respond));
}

}  // namespace

void add_group_routes(NodeControl& control, RouteHandlers& handlers) {
  add_route(control, handlers, Operation::kListGroups, list);
  add_route(control, handlers, Operation::kGetGroup, get);
  add_route(control, handlers, Operation::kPauseGroup, pause);
  add_route(control, handlers, Operation::kResumeGroup, resume);
  add_route(control, handlers, Operation::kResizeGroup, resize);
}

}  // namespace cohort
