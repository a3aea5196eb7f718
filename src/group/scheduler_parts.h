#pragma once

// All parts of Scheduler: for the one place that instantiates it, and for tests that plant bugs in it.

#include "cohort/task/executor.h"
#include "group/scheduler_await.h"   // IWYU pragma: export
#include "group/scheduler_chores.h"  // IWYU pragma: export
#include "group/scheduler_door.h"    // IWYU pragma: export
#include "group/scheduler_ends.h"    // IWYU pragma: export
#include "group/scheduler_run.h"     // IWYU pragma: export
#include "group/scheduler_share.h"   // IWYU pragma: export
#include "group/scheduler_start.h"   // IWYU pragma: export
#include "group/scheduler_submit.h"  // IWYU pragma: export
#include "group/scheduler_take.h"    // IWYU pragma: export
#include "group/scheduler_time.h"    // IWYU pragma: export
#include "group/scheduler_view.h"    // IWYU pragma: export
