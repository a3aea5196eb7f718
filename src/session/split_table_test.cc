#include "session/split_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "cohort/base/random.h"

namespace cohort::internal {
namespace {

struct Node {
  [[nodiscard]] std::uint32_t hash() const { return hash_; }
  std::uint32_t hash_ = 0;
  int number = 0;
  Node* next_ = nullptr;
  Node** link_ = nullptr;
};

template <class Table>
Node* find(const Table& table, std::uint32_t hash, int number) {
  return table.find(hash, [&](const Node& node) { return node.number == number; });
}

TEST(SplitTableTest, FindsWhatIsInItAsItGrowsAndShrinks) {
  SplitTable<Node> table;
  Random random(7);
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 10'000; ++i) {
    nodes.push_back(std::make_unique<Node>(Node{static_cast<std::uint32_t>(random.below(6000)), i, nullptr, nullptr}));
    table.insert(*nodes.back());
    const Node& some = *nodes[random.below(nodes.size())];
    ASSERT_EQ(find(table, some.hash(), some.number), &some);
  }
  EXPECT_EQ(find(table, nodes[0]->hash(), -1), nullptr);
  std::size_t seen = 0;
  table.for_each([&](const Node&) { ++seen; });
  EXPECT_EQ(seen, nodes.size());
  while (!nodes.empty()) {
    std::swap(nodes[random.below(nodes.size())], nodes.back());
    table.erase(*nodes.back());
    ASSERT_EQ(find(table, nodes.back()->hash(), nodes.back()->number), nullptr);
    nodes.pop_back();
    ASSERT_EQ(table.size(), nodes.size());
    if (nodes.empty()) break;
    const Node& some = *nodes[random.below(nodes.size())];
    ASSERT_EQ(find(table, some.hash(), some.number), &some);
  }
}

TEST(SplitTableTest, ComesAndGoesAroundEverySize) {
  SplitTable<Node, 2> table;
  std::vector<Node> nodes(400);
  for (std::size_t most = 1; most < nodes.size(); ++most) {
    for (std::size_t i = 0; i < most; ++i) {
      nodes[i] = {static_cast<std::uint32_t>(i * 2654435761U), static_cast<int>(i), nullptr, nullptr};
      table.insert(nodes[i]);
    }
    for (std::size_t i = 0; i < most; ++i) ASSERT_EQ(find(table, nodes[i].hash(), nodes[i].number), &nodes[i]);
    for (std::size_t i = 0; i < most; ++i) table.erase(nodes[i]);
    ASSERT_EQ(table.size(), 0U);
  }
}

}  // namespace
}  // namespace cohort::internal
