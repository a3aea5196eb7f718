// Any text is a configuration or a list of problems; nothing crashes and nothing hangs.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cohort/node/node_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto config = cohort::parse_config(std::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!config && config.error().message.empty()) __builtin_trap();
  return 0;
}
