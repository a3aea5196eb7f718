#pragma once

// What a node and its exec helper (apps/exec_helper) say to each other. Both are built from one tree, so there are no
// versions; the first message of the helper carries kProtocol, and a helper of another build is refused.

#include <cstdint>

namespace cohort::exec_protocol {

inline constexpr std::uint32_t kProtocol = 1;

/// Node -> helper, on its control socket.
enum class Order : std::uint8_t {
  kStart,  ///< Descriptors: specification, channel, standard input, output, errors.
  kHold,   ///< Descriptor: keep it open until every step has ended.
};
inline constexpr int kStartFiles = 5;

/// Node -> step, on its channel. The end of the channel means kKill.
enum class Signal : std::uint8_t { kTerminate, kKill };

/// Step -> node, on its channel: the last message before the channel ends. A channel that ends without it has lost its
/// step: somebody has killed the helper or the step's own process.
struct Verdict {
  enum class How : std::uint32_t { kExited, kSignalled, kNotStarted };
  How how = How::kExited;
  std::int32_t code = 0;  ///< Exit code, signal or errno.
};

/// Begins a specification; then `limits` Limits, and NUL-terminated strings: path, folder, arguments, environment.
struct Specification {
  std::uint32_t limits = 0;
  std::uint32_t arguments = 0;  ///< With the program's own name.
  std::uint32_t environment = 0;
};
struct Limit {
  std::int32_t kind = 0;
  std::uint32_t unused = 0;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

/// Helper -> node, once: it is there.
struct Hello {
  std::uint32_t protocol = kProtocol;
  std::uint32_t has_cgroup = 0;
};

}  // namespace cohort::exec_protocol
