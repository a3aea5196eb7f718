// Any bytes as a task, and as a message of the task topic: refused, or the same after a way out and back.

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "cohort/chain/task_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_discarded()) {
    if (const auto task = cohort::task_from_json(json)) {
      const auto again = cohort::task_from_json(cohort::to_json(*task));
      if (!again || !(*again == *task)) std::abort();
    }
  }
  static_cast<void>(cohort::taken_in({.value = text}));
  return 0;
}
