#pragma once

#include <string>

#include "backend/postgres/loop.h"
#include "cohort/backend/postgres/postgres_store.h"

namespace cohort::postgres {

/// What a connection is for; it decides how the server plans.
enum class Purpose { kWrite, kRead, kScan, kListen };

/// What is known of the server that the last connection leads to.
struct ServerNote {
  std::string timeline = {};  ///< Changes when a standby takes over.
};

/// Connects and prepares the session: time-outs, search path, planner. Blocks. kInvalid: the server or what is in
/// between cannot be used; kUnavailable: it may work later. No message has the password.
[[nodiscard]] Result<ConnectionRef> connect(const PostgresOptions& options, Purpose purpose, ServerNote& note);

}  // namespace cohort::postgres
