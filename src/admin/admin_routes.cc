#include "admin/admin_routes.h"

#include <algorithm>
#include <utility>

#include "api/routes.h"

namespace cohort {

void add_route(NodeControl& control, RouteHandlers& handlers, Operation operation, RouteFunction function) {
  handlers[operation] = [&control, function](const ServerRequest& request, Respond respond) {
    function(control, request, std::move(respond));
  };
}

AdminRoutes::AdminRoutes(NodeControl& control)
    : hub_(std::make_shared<EventHub>(control.store, control.max_event_streams, control.event_ping_every)) {
  add_task_routes(control, handlers_);
  add_dead_letter_routes(control, handlers_);
  add_group_routes(control, handlers_);
  add_node_routes(control, handlers_);
  add_event_routes(hub_, handlers_);
  hub_->start();
}

AdminRoutes::~AdminRoutes() { close(); }

void AdminRoutes::close() { hub_->close(); }

void AdminRoutes::handle(ServerRequest request, Respond respond) const {
  MatchedRoute matched = match_route(request.method, request.target);
  if (matched.route == nullptr && matched.allowed.empty()) {
    return respond(
        ServerResponse::of(Error{ErrorCode::kNotFound, "there is nothing at this path; see /v1/openapi.json"}));
  }
  if (matched.route == nullptr) {
    std::string allowed;
    for (const std::string_view each : matched.allowed) allowed += (allowed.empty() ? "" : ", ") + std::string(each);
    ServerResponse response = ServerResponse::of(Problem{405, "invalid", "this path takes " + allowed});
    response.headers = {{"Allow", allowed}};
    return respond(std::move(response));
  }
  for (const auto& [name, value] : request.target.query) {
    if (std::ranges::find(matched.route->query, name, &QueryParameter::name) != matched.route->query.end()) continue;
    return respond(ServerResponse::of(Error{ErrorCode::kInvalid, "this path has no parameter '" + name + "'"}));
  }
  const auto handler = handlers_.find(matched.route->id);
  if (handler == handlers_.end()) {
    return respond(ServerResponse::of(Error{ErrorCode::kInternal, "nobody handles this route"}));
  }
  request.arguments = std::move(matched.arguments);
  handler->second(std::move(request), std::move(respond));
}

}  // namespace cohort
