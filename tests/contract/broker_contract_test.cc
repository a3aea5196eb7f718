// What every Broker promises, run on each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cohort/testing/memory_broker.h"
#include "cohort/testing/virtual_clock.h"
#include "cohort/testing/virtual_wall_clock.h"

namespace cohort {
namespace {

/// Members of one group on one set of topics.
class BrokerWorld {
 public:
  virtual ~BrokerWorld() = default;
  [[nodiscard]] virtual std::unique_ptr<Broker> member() = 0;
};

class MemoryBrokerWorld final : public BrokerWorld {
 public:
  [[nodiscard]] std::unique_ptr<Broker> member() override { return shared_.member(); }

 private:
  VirtualClock clock_;
  VirtualWallClock wall_{clock_};
  MemoryBroker shared_{wall_};
};

class BrokerContract : public testing::Test {
 protected:
  void publish(Broker& broker, const std::string& key, const std::string& value) {
    bool published = false;
    broker.publish(Topic::kTasks, {{key, value}}, [&](const Result<void>& done) { published = done.ok(); });
    ASSERT_TRUE(published);
  }
  // What is there for this member now.
  static std::vector<InMessage> fetch(Broker& broker, std::uint32_t most = 100) {
    std::vector<InMessage> all;
    const auto got = std::make_shared<std::vector<InMessage>>();
    const auto answered = std::make_shared<bool>(false);
    broker.fetch(most, [got, answered](Result<std::vector<InMessage>> messages) {
      *answered = true;
      if (messages) *got = *std::move(messages);
    });
    return *got;
  }
  static std::vector<InMessage> fetch_all(Broker& broker, std::size_t count) {
    std::vector<InMessage> all;
    while (all.size() < count) {
      const std::vector<InMessage> some = fetch(broker);
      if (some.empty()) break;
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  static void acknowledge(Broker& broker, const std::vector<InMessage>& messages) {
    broker.acknowledge(messages, [](const Result<void>&) {});
  }
  static std::multiset<std::string> values(const std::vector<InMessage>& messages) {
    std::multiset<std::string> all;
    for (const InMessage& each : messages) all.insert(each.value);
    return all;
  }

  std::unique_ptr<BrokerWorld> world = std::make_unique<MemoryBrokerWorld>();
};

TEST_F(BrokerContract, EveryMessageComesOnceIfItIsAcknowledged) {
  auto broker = world->member();
  std::multiset<std::string> sent;
  for (int i = 0; i < 50; ++i) {
    publish(*broker, "key" + std::to_string(i), std::to_string(i));
    sent.insert(std::to_string(i));
  }
  const auto received = fetch_all(*broker, 50);
  EXPECT_EQ(values(received), sent);
  acknowledge(*broker, received);
}

TEST_F(BrokerContract, MessagesOfOneKeyKeepTheirOrder) {
  auto broker = world->member();
  for (int i = 0; i < 20; ++i) publish(*broker, "the same", std::to_string(i));
  const auto received = fetch_all(*broker, 20);
  ASSERT_EQ(received.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(received[static_cast<std::size_t>(i)].value, std::to_string(i));
}

TEST_F(BrokerContract, AFetchWaitsForAMessage) {
  auto broker = world->member();
  std::vector<InMessage> got;
  broker->fetch(10, [&](Result<std::vector<InMessage>> messages) { got = *messages; });
  EXPECT_TRUE(got.empty());
  publish(*broker, "k", "v");
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].key, "k");
}

TEST_F(BrokerContract, NoMoreThanAskedFor) {
  auto broker = world->member();
  for (int i = 0; i < 10; ++i) publish(*broker, "the same", std::to_string(i));
  EXPECT_LE(fetch(*broker, 3).size(), 3U);
}

TEST_F(BrokerContract, WhatIsNotAcknowledgedGoesToAnother) {
  auto first = world->member();
  for (int i = 0; i < 20; ++i) publish(*first, "key" + std::to_string(i), std::to_string(i));
  const auto received = fetch_all(*first, 20);
  ASSERT_EQ(received.size(), 20U);
  first->close();
  auto second = world->member();
  EXPECT_EQ(values(fetch_all(*second, 20)), values(received));
}

TEST_F(BrokerContract, WhatIsAcknowledgedDoesNotComeAgain) {
  auto first = world->member();
  for (int i = 0; i < 20; ++i) publish(*first, "key" + std::to_string(i), std::to_string(i));
  acknowledge(*first, fetch_all(*first, 20));
  first->close();
  auto second = world->member();
  EXPECT_TRUE(fetch(*second).empty());
  second->close();
}

TEST_F(BrokerContract, MembersShareTheMessages) {
  auto first = world->member();
  auto second = world->member();
  for (int i = 0; i < 40; ++i) publish(*first, "key" + std::to_string(i), std::to_string(i));
  const auto a = fetch_all(*first, 40);
  const auto b = fetch_all(*second, 40 - a.size());
  EXPECT_EQ(a.size() + b.size(), 40U);
  EXPECT_FALSE(a.empty());
  EXPECT_FALSE(b.empty());
}

TEST_F(BrokerContract, AnAcknowledgementOfWhatAnotherHasByNowIsIgnored) {
  auto first = world->member();
  for (int i = 0; i < 10; ++i) publish(*first, "key" + std::to_string(i), std::to_string(i));
  const auto received = fetch_all(*first, 10);
  auto second = world->member();  // Some of its partitions are the second's now.
  acknowledge(*first, received);
  first->close();
  const auto again = fetch_all(*second, 10);
  EXPECT_FALSE(again.empty());
}

TEST_F(BrokerContract, AfterTheEndAFetchSaysSo) {
  auto broker = world->member();
  ErrorCode waiting = ErrorCode::kInternal;
  broker->fetch(10, [&](const Result<std::vector<InMessage>>& messages) { waiting = messages.error().code; });
  broker->close();
  EXPECT_EQ(waiting, ErrorCode::kEnded);
  ErrorCode later = ErrorCode::kInternal;
  broker->fetch(10, [&](const Result<std::vector<InMessage>>& messages) { later = messages.error().code; });
  EXPECT_EQ(later, ErrorCode::kEnded);
}

}  // namespace
}  // namespace cohort
