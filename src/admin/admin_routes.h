#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "admin/event_hub.h"
#include "admin/node_control.h"
#include "admin/server_message.h"
#include "api/routes.h"

namespace cohort {

/// The handlers of all routes of api/routes.h, over one node.
///
/// Thread-safety: thread-safe; handle() does not block.
class AdminRoutes {
 public:
  using Handler = std::function<void(ServerRequest, Respond)>;

  explicit AdminRoutes(NodeControl& control);
  ~AdminRoutes();

  void handle(ServerRequest request, Respond respond) const;
  /// Ends the streams of events.
  void close();
  [[nodiscard]] bool has(Operation operation) const { return handlers_.contains(operation); }

 private:
  std::shared_ptr<EventHub> hub_;
  std::map<Operation, Handler> handlers_;
};

using RouteHandlers = std::map<Operation, AdminRoutes::Handler>;

using RouteFunction = void (*)(NodeControl& control, const ServerRequest& request, Respond respond);
void add_route(NodeControl& control, RouteHandlers& handlers, Operation operation, RouteFunction function);

/// An ended task once more; for tasks and for dead letters.
void replay_task(NodeControl& control, const ServerRequest& request, Respond respond);

// One file per area puts its handlers in.
void add_task_routes(NodeControl& control, RouteHandlers& handlers);
void add_dead_letter_routes(NodeControl& control, RouteHandlers& handlers);
void add_group_routes(NodeControl& control, RouteHandlers& handlers);
void add_node_routes(NodeControl& control, RouteHandlers& handlers);
void add_event_routes(const std::shared_ptr<EventHub>& hub, RouteHandlers& handlers);

}  // namespace cohort
