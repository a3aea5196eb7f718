#include "cohort/task/internal/task_record.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cohort/task/internal/await_state.h"
#include "cohort/task/internal/callable_record.h"

namespace cohort::internal {
namespace {

auto make_record() {
  using Body = int (*)();
  return Ref<CallableRecord<Body>>::adopt(new CallableRecord<Body>("g", "t", [] { return 1; }));
}

// Keys that all meet under the hash of version 0.1, which had no secret: anybody could make them.
std::vector<std::string> chosen_keys(std::size_t count) {
  constexpr std::uint64_t kFactor = 0x9E37'79B9'7F4A'7C15ULL;
  std::uint64_t inverse = kFactor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  std::vector<std::string> keys;
  for (std::uint64_t high = 0; keys.size() < count; ++high) {
    const std::uint64_t last = (high << 32) | (high & 0xFFFF'FFFFU);  // Its halves cancel out.
    std::uint64_t product = last;
    for (int i = 0; i < 3; ++i) product = last ^ (product >> 29);
    const std::uint64_t word = (product * inverse) ^ 8;
    keys.emplace_back(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return keys;
}

TEST(TaskLabelTest, NobodyCanChooseKeysThatMeet) {
  const std::vector<std::string> keys = chosen_keys(20'000);
  std::set<std::uint32_t> hashes;
  std::set<std::uint32_t> places;  // Of a table with 32,768 of them.
  for (const std::string& key : keys) {
    hashes.insert(TaskLabel::hash(key));
    places.insert(TaskLabel::hash(key) & 0x7FFF);
  }
  EXPECT_GE(hashes.size(), 19'990U);
  EXPECT_GE(places.size(), 14'000U);  // 14,973 of randomly chosen ones.
}

TEST(TaskLabelTest, TheHashCoversEveryByteAndTheLength) {
  std::set<std::uint32_t> hashes;
  std::size_t keys = 0;
  for (std::size_t size = 0; size <= TaskLabel::kMaxKeyBytes + 1; ++size) {
    const std::string zeros(size, '\0');
    hashes.insert(TaskLabel::hash(zeros));
    ++keys;
    for (std::size_t at = 0; at < size; at += 37) {
      std::string other = zeros;
      other[at] = 'x';
      hashes.insert(TaskLabel::hash(other));
      ++keys;
    }
  }
  EXPECT_GE(hashes.size(), keys - 10);
}

TEST(TaskRecordTest, IsClaimedOnce) {
  auto record = make_record();
  EXPECT_TRUE(record->try_claim(TaskStatus::kSuccess));
  EXPECT_FALSE(record->try_claim(TaskStatus::kCancelled));
  EXPECT_EQ(record->status(), TaskStatus::kSuccess);
  EXPECT_FALSE(record->is_done());
  record->publish(Time(Duration(5)));
  EXPECT_TRUE(record->is_done());
  EXPECT_EQ(record->ended_at, Time(Duration(5)));
}

TEST(TaskRecordTest, ABodyWithATimeLimitMayComeTooLate) {
  auto late = make_record();
  late->timed = true;
  late->begin({});
  EXPECT_TRUE(late->try_claim(TaskStatus::kTimedOutRunning));
  EXPECT_FALSE(late->claim_by_body(TaskStatus::kSuccess));
  EXPECT_EQ(late->status(), TaskStatus::kTimedOutRunning);

  auto in_time = make_record();
  in_time->timed = true;
  EXPECT_TRUE(in_time->claim_by_body(TaskStatus::kFailed));
  EXPECT_FALSE(in_time->try_claim(TaskStatus::kTimedOutRunning));
  EXPECT_EQ(in_time->status(), TaskStatus::kFailed);
}

TEST(TaskRecordTest, ABodyWithoutOneTellsItsOutcomeWhenItIsPublished) {
  auto record = make_record();
  EXPECT_TRUE(record->claim_by_body(TaskStatus::kSuccess));
  record->reclaim_by_body(TaskStatus::kFailed);
  EXPECT_EQ(record->claimed_status(), TaskStatus::kFailed);
  record->publish({});
  EXPECT_EQ(record->status(), TaskStatus::kFailed);
}

TEST(AwaitStateTest, CallsBackOnceWhenEnoughAreDone) {
  std::vector<TaskRef> records;
  for (int i = 0; i < 3; ++i) records.emplace_back(*make_record());
  int calls = 0;
  auto state = AwaitState::make(records, 2);
  state->arm([&] { ++calls; });
  for (const TaskRef& record : records) {
    record->try_claim(TaskStatus::kSuccess);
    record->publish({});
    EXPECT_EQ(calls, record.get() == records[0].get() ? 0 : 1);
  }
  EXPECT_TRUE(state->satisfied());
}

TEST(AwaitStateTest, CallsBackAtOnceWhenAllAreDoneAlready) {
  auto record = make_record();
  record->try_claim(TaskStatus::kSuccess);
  record->publish({});
  int calls = 0;
  AwaitState::make(*record)->arm([&] { ++calls; });
  AwaitState::make(std::vector<TaskRef>{}, 0)->arm([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(AwaitStateTest, DisarmedItNeverCalls) {
  auto record = make_record();
  int calls = 0;
  auto state = AwaitState::make(*record);
  state->arm([&] { ++calls; });
  state->disarm();
  record->try_claim(TaskStatus::kSuccess);
  record->publish({});
  EXPECT_EQ(calls, 0);
}

TEST(TaskRecordStressTest, ManyClaimOneWinsAndAllWaitersHear) {
  for (int round = 0; round < 300; ++round) {
    auto record = make_record();
    std::atomic<int> won{0};
    std::atomic<int> heard{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        auto state = AwaitState::make(*record);
        state->arm([&] { ++heard; });
        if (record->try_claim(t == 0 ? TaskStatus::kSuccess : TaskStatus::kTimedOutRunning)) {
          ++won;
          record->publish({});
        }
        if (t == 3) state->disarm();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
    EXPECT_GE(heard, 3);
  }
}

}  // namespace
}  // namespace cohort::internal
