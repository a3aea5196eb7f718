#include "cohort/base/event.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(EventTest, KeepsItsFieldsInOrder) {
  Event event("breaker.opened", Time(Duration(7)));
  event.with("provider", "a").with("rate", 0.5).with("calls", std::int64_t{12}).with("manual", true);

  EXPECT_EQ(event.kind(), "breaker.opened");
  EXPECT_EQ(event.at(), Time(Duration(7)));
  ASSERT_EQ(event.fields().size(), 4U);
  EXPECT_EQ(event.fields()[0].name, "provider");
  EXPECT_EQ(std::get<std::string>(*event.find("provider")), "a");
  EXPECT_EQ(std::get<double>(*event.find("rate")), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(*event.find("calls")), 12);
  EXPECT_EQ(std::get<bool>(*event.find("manual")), true);
  EXPECT_EQ(event.find("other"), nullptr);
}

}  // namespace
}  // namespace cohort
