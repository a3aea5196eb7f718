// What is called for every request allocates nothing. The sanitizers have allocators of their own, so there it is not
// counted.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "cohort/provider/breaker.h"
#include "cohort/provider/bulkhead.h"
#include "cohort/provider/retry_budget.h"
#include "cohort/provider/router.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COHORT_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COHORT_COUNTS 0
#endif
#endif
#ifndef COHORT_COUNTS
#define COHORT_COUNTS 1
#endif

namespace {

thread_local int allocations = 0;

}  // namespace

#if COHORT_COUNTS
void* operator new(std::size_t size) {
  ++allocations;
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
#endif

namespace cohort {
namespace {

template <class Call>
int allocations_of(Call&& call) {
  const int before = allocations;
  for (int i = 0; i < 1000; ++i) call();
  return allocations - before;
}

TEST(AllocationTest, IsCounted) {
  if (!COHORT_COUNTS) GTEST_SKIP();
  const auto allocate = [] {
    int* volatile block = new int(1);  // Else the compiler leaves it out.
    delete block;
  };
  EXPECT_EQ(allocations_of(allocate), 1000) << "else the others prove nothing";
}

TEST(AllocationTest, ThereIsNoneForACall) {
  Breaker closed;
  EXPECT_EQ(allocations_of([&] { closed.allow().success(); }), 0);
  EXPECT_EQ(allocations_of([&] { closed.allow().failure(FailureType::kHttp4xx); }), 0);
  Breaker open;
  for (int i = 0; i < 5; ++i) open.allow().failure(FailureType::kConnect);
  EXPECT_EQ(allocations_of([&] { EXPECT_FALSE(open.allow()); }), 0);
  Bulkhead bulkhead(1);
  EXPECT_EQ(allocations_of([&] { EXPECT_TRUE(bulkhead.enter()); }), 0);
  RetryBudget budget;
  EXPECT_EQ(allocations_of([&] {
              budget.count_request();
              budget.try_retry();
            }),
            0);
  const auto router = Router::make({{.name = "a"}, {.name = "b"}, {.name = "c"}}).value();
  EXPECT_EQ(allocations_of([&] { EXPECT_TRUE(router->select()); }), 0);
}

}  // namespace
}  // namespace cohort
