#include "cohort/base/internal/keyed_hash.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace cohort::internal {
namespace {

struct State {
  std::uint64_t v0;
  std::uint64_t v1;
  std::uint64_t v2;
  std::uint64_t v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void add(std::uint64_t word) {
    v3 ^= word;
    round();
    v0 ^= word;
  }
};

std::array<std::uint64_t, 2> secret_of_process() {
  static const std::array<std::uint64_t, 2> secret = [] {
    std::array<std::uint64_t, 2> words{};
    if (::getrandom(words.data(), sizeof(words), 0) == static_cast<ssize_t>(sizeof(words))) return words;
    // A kernel that has none; what is left are addresses, which differ from run to run, and the time.
    words[0] = reinterpret_cast<std::uintptr_t>(&words);
    words[1] = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    return words;
  }();
  return secret;
}

}  // namespace

KeyedHash::KeyedHash() : KeyedHash(secret_of_process()[0], secret_of_process()[1]) {}

std::uint64_t KeyedHash::operator()(std::string_view text) const {
  State state{first_ ^ 0x736f'6d65'7073'6575ULL, second_ ^ 0x646f'7261'6e64'6f6dULL, first_ ^ 0x6c79'6765'6e65'7261ULL,
              second_ ^ 0x7465'6462'7974'6573ULL};
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    state.add(word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(text.size()) << 56U;
  std::memcpy(&last, text.data() + at, text.size() - at);  // The last byte stays that of the size.
  state.add(last);
  state.v2 ^= 0xFF;
  for (int i = 0; i < 3; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace cohort::internal
