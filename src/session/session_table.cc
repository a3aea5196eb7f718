#include <memory>
#include <utility>

#include "session/session_table_parts.h"

namespace cohort {

std::string executor_key(const SessionId& session, const GroupName& name) {
  std::string key;
  key.reserve(session.str().size() + 1 + name.str().size());
  for (const char c : session.str()) {
    if (c == '/') {
      key += "%2F";
    } else if (c == '%') {
      key += "%25";
    } else {
      key += c;
    }
  }
  key += '/';
  key += name.str();
  return key;
}

namespace internal {

std::unique_ptr<SessionTable> SessionTable::make(SessionOptions options, Function<void(Ended)> on_idle_end) {
  return std::make_unique<ShardedSessionTable<>>(std::move(options), std::move(on_idle_end));
}

}  // namespace internal
}  // namespace cohort
