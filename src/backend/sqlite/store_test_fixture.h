#pragma once

// Folders for stores, and calls of a store that wait for their answer.

#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>
#include <utility>

#include "cohort/store/task_store.h"

namespace cohort {

/// A folder of its own under the system's place for temporary files, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Makes a call of a store and waits for its answer: wait<Written>([&](auto done) { store.cancel(id, "", done); }).
template <class T, class Call>
Result<T> wait(Call&& call) {
  std::promise<Result<T>> answered;
  std::future<Result<T>> answer = answered.get_future();
  call(Completion<T>([&](Result<T> result) { answered.set_value(std::move(result)); }));
  return answer.get();
}

}  // namespace cohort
