#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace cohort::bench {

void Suite::measure(std::string workload, std::string who, std::string unit, std::function<double()> run, int rounds) {
  measurements_.push_back({{std::move(workload), std::move(who)}, std::move(unit), std::move(run), rounds});
}

void Suite::ratio(std::string key, Place over, Place under, Bar bar) {
  std::string workload = over.workload;
  auto make = [over = std::move(over), under = std::move(under)](const Values& values) {
    std::vector<double> pairs = values.at(over);
    const std::vector<double>& others = values.at(under);
    for (std::size_t round = 0; round < pairs.size(); ++round) pairs[round] /= others.at(round);
    return pairs;
  };
  figures_.push_back({std::move(key), std::move(workload), std::move(make), bar});
}

void Suite::value(std::string key, Place place, double scale, Bar bar) {
  std::string workload = place.workload;
  auto make = [place = std::move(place), scale](const Values& values) {
    std::vector<double> rounds = values.at(place);
    for (double& each : rounds) each /= scale;
    return rounds;
  };
  figures_.push_back({std::move(key), std::move(workload), std::move(make), bar});
}

void Suite::figure(std::string key, std::string workload, std::function<double(const Values&)> make, Bar bar) {
  auto alone = [make = std::move(make)](const Values& values) { return std::vector<double>{make(values)}; };
  figures_.push_back({std::move(key), std::move(workload), std::move(alone), bar});
}

double Suite::median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The number of values below the median is binomial: the bound is the first value in order that has at least 90 % of
// that distribution below it.
double Suite::upper_bound(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  double term = std::pow(0.5, count);
  double below = 0;
  for (std::size_t place = 0; place < values.size(); ++place) {
    below += term;
    if (below >= 0.9) return values[place];
    term *= (count - static_cast<double>(place)) / (static_cast<double>(place) + 1);
  }
  return values.back();
}

int Suite::rounds_of(const std::string& workload, int rounds) const {
  for (const Measurement& each : measurements_) {
    if (each.place.workload == workload) rounds = each.rounds == 1 ? 1 : std::max(rounds, each.rounds);
  }
  return rounds;
}

double Suite::run_in_process(const char* program, std::size_t index) const {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::nan("");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    const std::string number = std::to_string(index);
    execl(program, program, "--one", number.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t size = 0; (size = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) {
    std::fprintf(stderr, "%s / %s failed\n", measurements_[index].place.workload.c_str(),
                 measurements_[index].place.who.c_str());
    std::exit(1);
  }
  return std::strtod(text.c_str(), nullptr);
}

int Suite::run(int argc, char** argv) {
  int rounds = 5;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--one") {
      std::printf("%.9g\n", measurements_[static_cast<std::size_t>(std::atoi(argv[i + 1]))].run());
      return 0;
    }
    if (option == "--rounds") rounds = std::max(1, std::atoi(argv[i + 1]));
    if (option == "--only") only = argv[i + 1];
  }
  const auto wanted = [&](const std::string& workload) { return only.empty() || workload.starts_with(only); };
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");

  Values values;
  int most = 0;
  for (const Measurement& each : measurements_) {
    if (wanted(each.place.workload)) most = std::max(most, rounds_of(each.place.workload, rounds));
  }
  for (int round = 0; round < most; ++round) {
    for (std::size_t i = 0; i < measurements_.size(); ++i) {
      const Measurement& each = measurements_[i];
      if (!wanted(each.place.workload) || round >= rounds_of(each.place.workload, rounds)) continue;
      if (isatty(STDERR_FILENO) != 0) {
        std::fprintf(stderr, "\r\033[Kround %d of %d: %s, %s", round + 1, most, each.place.workload.c_str(),
                     each.place.who.c_str());
      }
      values[each.place].push_back(run_in_process(program.c_str(), i));
    }
  }
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
  std::vector<Made> figures;
  for (const Figure& figure : figures_) {
    if (!wanted(figure.workload)) continue;
    try {
      figures.push_back({&figure, figure.make(values)});
    } catch (const std::out_of_range&) {
      // The other part of it was not measured this time.
    }
  }
  print(values, figures);
  write(values, figures);
  return 0;
}

void Suite::print(const Values& values, const std::vector<Made>& figures) const {
  std::printf("%-18s %-12s %12s  %-10s %s\n", "workload", "who", "median", "unit", "all rounds");
  for (const Measurement& each : measurements_) {
    const auto found = values.find(each.place);
    if (found == values.end()) continue;
    std::printf("%-18s %-12s %12.4g  %-10s", each.place.workload.c_str(), each.place.who.c_str(), median(found->second),
                each.unit.c_str());
    for (std::size_t i = 0; i < found->second.size() && i < 9; ++i) std::printf(" %.4g", found->second[i]);
    std::printf("%s\n", found->second.size() > 9 ? " ..." : "");
  }
  std::printf("\n%-28s %10s %10s %10s %10s\n", "ratio", "measured", "upper 90 %", "must", "aim");
  for (const auto& [figure, rounds] : figures) {
    const double value = median(rounds);
    const char* sign = figure->bar.upper ? "<=" : ">=";
    const auto reaches = [&, upper = figure->bar.upper, measured = value](double bar) {
      return upper ? measured <= bar : measured >= bar;
    };
    std::printf("%-28s %10.3g %10.3g %4s %5g %4s %5g  %s\n", figure->key.c_str(), value, upper_bound(rounds), sign,
                figure->bar.must, sign, figure->bar.aim,
                reaches(figure->bar.aim)    ? "aim reached"
                : reaches(figure->bar.must) ? "reached"
                                            : "NOT REACHED");
  }
}

void Suite::write(const Values& values, const std::vector<Made>& figures) const {
  std::filesystem::create_directories("build/bench");
  const std::string path = "build/bench/" + name_ + ".json";
  std::ofstream out(path);
  out << "{\"name\": \"" << name_ << "\",\n \"ratios\": {";
  const char* separator = "\n";
  for (const auto& [figure, rounds] : figures) {
    out << std::exchange(separator, ",\n") << "  \"" << figure->key << "\": " << median(rounds);
    out << separator << "  \"" << figure->key << "_upper\": " << upper_bound(rounds);
  }
  out << "\n },\n \"rows\": [";
  separator = "\n";
  for (const Measurement& each : measurements_) {
    const auto found = values.find(each.place);
    if (found == values.end()) continue;
    out << std::exchange(separator, ",\n") << "  {\"workload\": \"" << each.place.workload << "\", \"who\": \""
        << each.place.who << "\", \"value\": " << median(found->second) << ", \"unit\": \"" << each.unit << "\"}";
  }
  out << "\n ]}\n";
  std::printf("\nwritten to %s\n", path.c_str());
}

}  // namespace cohort::bench
