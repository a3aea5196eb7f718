#include "provider/http/address_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cohort::internal {
namespace {

struct V4Range {
  std::uint32_t first;
  int bits;
};

constexpr std::uint32_t v4(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return a << 24U | b << 16U | c << 8U; }

// The special-purpose registries of IANA, as far as they are not reachable by everybody.
constexpr std::array<V4Range, 15> kSpecialV4 = {{
    {v4(0, 0, 0), 8},
    {v4(10, 0, 0), 8},
    {v4(100, 64, 0), 10},
    {v4(127, 0, 0), 8},
    {v4(169, 254, 0), 16},
    {v4(172, 16, 0), 12},
    {v4(192, 0, 0), 24},
    {v4(192, 0, 2), 24},
    {v4(192, 88, 99), 24},
    {v4(192, 168, 0), 16},
    {v4(198, 18, 0), 15},
    {v4(198, 51, 100), 24},
    {v4(203, 0, 113), 24},
    {v4(224, 0, 0), 4},
    {v4(240, 0, 0), 4},
}};

using V6 = std::array<std::uint8_t, 16>;

struct V6Range {
  std::array<std::uint8_t, 12> first;
  unsigned bits;
};

constexpr V6Range kMappedV4 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
constexpr V6Range kTranslatedV4 = {{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}, 96};
constexpr V6Range kSixToFour = {{0x20, 0x02}, 16};
// All that has been given out for the whole world; loopback, unique local, link-local and multicast lie outside.
constexpr V6Range kGlobal = {{0x20}, 3};
constexpr std::array<V6Range, 3> kSpecialV6 = {{
    {{0x20, 0x01}, 23},              // Protocols; also Teredo, which hides an IPv4 address.
    {{0x20, 0x01, 0x0d, 0xb8}, 32},  // Documentation, as is the next.
    {{0x3f, 0xff}, 20},
}};

bool is_in(const V6& address, const V6Range& range) {
  for (unsigned bit = 0; bit < range.bits; ++bit) {
    const unsigned mask = 0x80U >> bit % 8;
    if (((address[bit / 8] ^ range.first[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool is_public(std::uint32_t address) {
  return std::ranges::none_of(kSpecialV4,
                              [&](const V4Range& range) { return (address ^ range.first) >> (32 - range.bits) == 0; });
}

std::uint32_t embedded_v4(std::span<const std::uint8_t, 4> bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U | std::uint32_t{bytes[2]} << 8U | bytes[3];
}

bool is_public(const V6& address) {
  const std::span<const std::uint8_t, 16> bytes(address);
  if (is_in(address, kMappedV4) || is_in(address, kTranslatedV4)) return is_public(embedded_v4(bytes.last<4>()));
  if (is_in(address, kSixToFour)) return is_public(embedded_v4(bytes.subspan<2, 4>()));
  if (!is_in(address, kGlobal)) return false;
  return std::ranges::none_of(kSpecialV6, [&](const V6Range& range) { return is_in(address, range); });
}

}  // namespace

bool is_public_address(const sockaddr& address) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&address);
  if (address.sa_family == AF_INET) {
    std::uint32_t v4_address = 0;
    std::memcpy(&v4_address, bytes + offsetof(sockaddr_in, sin_addr), sizeof(v4_address));
    return is_public(ntohl(v4_address));
  }
  if (address.sa_family != AF_INET6) return false;
  V6 v6_address{};
  std::memcpy(v6_address.data(), bytes + offsetof(sockaddr_in6, sin6_addr), v6_address.size());
  return is_public(v6_address);
}

std::string text_of_address(const sockaddr& address) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&address);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::size_t at =
      address.sa_family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  const bool is_known = address.sa_family == AF_INET || address.sa_family == AF_INET6;
  if (!is_known || inet_ntop(address.sa_family, bytes + at, text.data(), text.size()) == nullptr)
    return "of no known kind";
  return text.data();
}

}  // namespace cohort::internal
