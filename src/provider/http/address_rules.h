#pragma once

// Which addresses are somebody's on the open internet, and which are ours or nobody's.

#include <sys/socket.h>

#include <string>

namespace cohort::internal {

/// False for private, loopback, link-local, multicast, documentation and other special addresses, and for what is
/// neither IPv4 nor IPv6. An IPv6 address that stands for an IPv4 one is what that is.
///
/// `address` is the beginning of a sockaddr_in or sockaddr_in6, as its family says.
[[nodiscard]] bool is_public_address(const sockaddr& address);

/// "127.0.0.1", "::1".
[[nodiscard]] std::string text_of_address(const sockaddr& address);

}  // namespace cohort::internal
