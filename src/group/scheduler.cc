#include "group/scheduler_parts.h"

namespace cohort::internal {

template class Scheduler<NoFaults>;

}  // namespace cohort::internal
