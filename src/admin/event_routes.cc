#include <utility>

#include "admin/admin_routes.h"
#include "admin/answers.h"

namespace cohort {
namespace {

// What a reader had last counts more than what it asked for when it came the first time.
Result<EventFilter> filter_of(const ServerRequest& request) {
  EventFilter filter{.group = query(request, "group"), .task = query(request, "task")};
  std::string after = request.last_event_id.empty() ? query(request, "after") : request.last_event_id;
  if (after.empty()) return filter;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(after.data(), after.data() + after.size(), value);
  if (error != std::errc() || end != after.data() + after.size() || value > (std::uint64_t{1} << 62U)) {
    return Error{ErrorCode::kInvalid, "after and Last-Event-ID are the sequence of an event"};
  }
  filter.after = value;
  return filter;
}

}  // namespace

void add_event_routes(const std::shared_ptr<EventHub>& hub, RouteHandlers& handlers) {
  handlers[Operation::kStreamEvents] = [hub](const ServerRequest& request, Respond respond) {
    Result<EventFilter> filter = filter_of(request);
    if (!filter) return respond(ServerResponse::of(filter.error()));
    auto stream = hub->subscribe(*std::move(filter));
    if (!stream) return respond(ServerResponse::of(stream.error()));
    respond({.type = "text/event-stream", .stream = *std::move(stream)});
  };
}

}  // namespace cohort
