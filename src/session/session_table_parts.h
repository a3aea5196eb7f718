#pragma once

// All of ShardedSessionTable; for session_table.cc, and for tests that plant bugs in it.

#include "session/session_calls.h"
#include "session/session_ends.h"
#include "session/session_places.h"
#include "session/sharded_session_table.h"
