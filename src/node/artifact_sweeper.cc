#include "node/artifact_sweeper.h"

#include <future>
#include <system_error>
#include <utility>

#include "cohort/base/log.h"
#include "plugin/artifact_folder.h"

namespace cohort {
namespace {

bool is_forgotten(TaskStore& store, const std::string& task_id) {
  std::promise<bool> answered;
  store.get(task_id, [&](const Result<ChainTask>& task) {
    answered.set_value(!task && task.error().code == ErrorCode::kNotFound);
  });
  return answered.get_future().get();
}

}  // namespace

ArtifactSweeper::ArtifactSweeper(std::filesystem::path root, TaskStore& store, Duration every)
    : root_(std::move(root)), store_(store), thread_([this, every] { run(every); }) {}

ArtifactSweeper::~ArtifactSweeper() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::size_t ArtifactSweeper::sweep(const std::filesystem::path& root, TaskStore& store,
                                   const std::function<bool()>& is_ending) {
  std::size_t removed = 0;
  for (const ArtifactFolder& each : artifact_folders(root)) {
    if (is_ending()) break;
    if (each.task_id.empty() || !is_forgotten(store, each.task_id)) continue;
    std::error_code failed;
    std::filesystem::remove_all(each.path, failed);
    if (failed) {
      COHORT_LOG(kWarning, "node", "artifacts could not be removed", {"task", each.task_id},
                 {"folder", each.path.string()}, {"error", failed.message()});
    } else {
      ++removed;
    }
  }
  return removed;
}

void ArtifactSweeper::run(Duration every) {
  MutexLock lock(mutex_);
  while (!is_ending_) {
    lock.unlock();
    static_cast<void>(sweep(root_, store_, [this] {
      MutexLock asks(mutex_);
      return is_ending_;
    }));
    lock.lock();
    const Time until = system_clock().now() + every;
    while (!is_ending_ && system_clock().now() < until) changed_.wait_until(mutex_, until);
  }
}

}  // namespace cohort
