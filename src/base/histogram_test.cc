#include "cohort/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cohort/base/random.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(HistogramTest, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.quantile(0.99), 0ns);
}

TEST(HistogramTest, QuantilesAreRightWithinAnEighth) {
  Random random(1);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(std::exp(random.unit() * 20)));
    histogram.record(Duration(values.back()));
  }
  std::ranges::sort(values);
  for (const double q : {0.01, 0.5, 0.95, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * 20'000)) - 1;
    const auto exact = static_cast<double>(values[rank]);
    const auto told = static_cast<double>(histogram.quantile(q).count());
    EXPECT_GE(told, exact) << q;
    EXPECT_LE(told, exact * 1.125 + 1) << q;
  }
  EXPECT_EQ(histogram.max(), Duration(values.back()));
}

TEST(HistogramTest, TakesTheExtremes) {
  Histogram histogram;
  histogram.record(-5s);
  histogram.record(Duration::max());
  EXPECT_EQ(histogram.quantile(0.5), 0ns);
  EXPECT_EQ(histogram.quantile(1.0), Duration::max());
}

TEST(HistogramTest, MergesAsIfRecordedTogether) {
  Histogram a;
  Histogram b;
  Histogram both;
  for (int i = 1; i < 1000; ++i) {
    (i % 3 == 0 ? a : b).record(Duration(i));
    both.record(Duration(i));
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.sum(), both.sum());
  EXPECT_EQ(a.quantile(0.9), both.quantile(0.9));
}

}  // namespace
}  // namespace cohort
