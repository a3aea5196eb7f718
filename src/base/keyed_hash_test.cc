#include "cohort/base/internal/keyed_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cohort::internal {
namespace {

// Of the reference implementation with one and three rounds, the key 00 01 .. 0f and the text 00 01 .. n - 1.
TEST(KeyedHashTest, IsSipHash13) {
  const KeyedHash hash(0x0706'0504'0302'0100ULL, 0x0f0e'0d0c'0b0a'0908ULL);
  std::string text;
  const std::uint64_t known[] = {0xabac'0158'050f'c4dcULL, 0xc9f4'9bf3'7d57'ca93ULL, 0x82cb'9b02'4dc7'd44dULL,
                                 0x8bf8'0ab8'e7dd'f7fbULL, 0xcf75'5760'88d3'8328ULL, 0xdef9'd52f'4953'3b67ULL,
                                 0xc50d'2b50'c59f'22a7ULL, 0xd392'7d98'9bb1'1140ULL, 0x3690'9511'8d29'9a8eULL};
  for (std::size_t i = 0; i < std::size(known); ++i) {
    EXPECT_EQ(hash(text), known[i]) << i;
    text += static_cast<char>(i);
  }
}

TEST(KeyedHashTest, AnotherSecretGivesOtherHashes) {
  std::set<std::uint64_t> all;
  for (std::uint64_t secret = 0; secret < 1000; ++secret) all.insert(KeyedHash(secret)("session-1"));
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_EQ(KeyedHash()("session-1"), KeyedHash()("session-1")) << "the same in all of a process";
  EXPECT_NE(KeyedHash()("a"), KeyedHash()(std::string("a\0", 2)));
}

}  // namespace
}  // namespace cohort::internal
