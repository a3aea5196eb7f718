#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cohort::bench {

/// A set of measurements and the ratios made of them. Every single measurement runs in a process of its own. All
/// measurements of a workload run the same rounds, interleaved. A ratio is made of each round's pair; the median over
/// the rounds counts, and beside it stands an upper bound: with 90 % confidence the true median is not greater.
///
///     Suite suite("group");
///     suite.measure("grouped1", "cohort", "ns/task", [] { ... return nanoseconds; });
///     suite.ratio("grouped1_vs_tbb", {"grouped1", "cohort"}, {"grouped1", "tbb"}, Suite::at_most(1.2, 0.7));
///     return suite.run(argc, argv);
///
/// `program --rounds 9 --only grouped1` changes how often and what.
class Suite {
 public:
  struct Place {
    std::string workload;
    std::string who;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// What a ratio has to reach, and what it should.
  struct Bar {
    double must;
    double aim;
    bool upper;  // The smaller the better.
  };
  static Bar at_most(double must, double aim) { return {must, aim, true}; }
  static Bar at_least(double must, double aim) { return {must, aim, false}; }
  using Values = std::map<Place, std::vector<double>>;

  explicit Suite(std::string name) : name_(std::move(name)) {}

  /// `rounds` of 0: the suite's; else at least so many for the whole workload.
  void measure(std::string workload, std::string who, std::string unit, std::function<double()> run, int rounds = 0);
  void ratio(std::string key, Place over, Place under, Bar bar);
  /// What was measured, over `scale`.
  void value(std::string key, Place place, double scale, Bar bar);
  /// A figure that is made in another way, out of all rounds of all measurements. It has no bound of its own.
  void figure(std::string key, std::string workload, std::function<double(const Values&)> make, Bar bar);

  int run(int argc, char** argv);

  static double median(std::vector<double> values);
  /// So great or smaller is, with 90 % confidence, the median of what the values are a sample of.
  static double upper_bound(std::vector<double> values);

 private:
  struct Measurement {
    Place place;
    std::string unit;
    std::function<double()> run;
    int rounds;
  };
  struct Figure {
    std::string key;
    std::string workload;                                    ///< Which has to have been measured.
    std::function<std::vector<double>(const Values&)> make;  ///< By rounds; or just one.
    Bar bar;
  };
  struct Made {
    const Figure* figure;
    std::vector<double> rounds;
  };

  double run_in_process(const char* program, std::size_t index) const;
  [[nodiscard]] int rounds_of(const std::string& workload, int rounds) const;
  void print(const Values& values, const std::vector<Made>& figures) const;
  void write(const Values& values, const std::vector<Made>& figures) const;

  std::string name_;
  std::vector<Measurement> measurements_;
  std::vector<Figure> figures_;
};

}  // namespace cohort::bench
