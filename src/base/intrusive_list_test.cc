#include "cohort/base/internal/intrusive_list.h"

#include <gtest/gtest.h>

#include <string>

namespace cohort::internal {
namespace {

struct Item : ListLinks<Item> {
  explicit Item(char c) : name(c) {}
  char name;
};

std::string names(const IntrusiveList<Item>& list) {
  std::string text;
  for (Item* item = list.front(); item != nullptr; item = IntrusiveList<Item>::next(*item)) text += item->name;
  return text;
}

TEST(IntrusiveListTest, PutsInBeforeAnother) {
  Item a('a');
  Item b('b');
  Item c('c');
  IntrusiveList<Item> list;
  list.push_back(c);
  list.insert_before(c, a);
  list.insert_before(c, b);
  EXPECT_EQ(names(list), "abc");
  list.erase(b);
  EXPECT_EQ(names(list), "ac");
}

TEST(IntrusiveListTest, PutsInAtBothEndsAndTakesOutAnywhere) {
  Item a('a');
  Item b('b');
  Item c('c');
  IntrusiveList<Item> list;
  list.push_back(b);
  list.push_back(c);
  list.push_front(a);
  EXPECT_EQ(names(list), "abc");
  list.erase(b);
  EXPECT_EQ(names(list), "ac");
  list.erase(c);
  list.push_back(b);
  EXPECT_EQ(names(list), "ab");
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_EQ(list.pop_front(), &b);
  EXPECT_EQ(list.pop_front(), nullptr);
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace cohort::internal
