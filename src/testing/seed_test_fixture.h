#pragma once

#include <cstdint>
#include <cstdlib>

namespace cohort {

/// The seeds that a test with random events runs: 1 .. `count`, unless the environment says otherwise.
/// COHORT_SEED=n replays one; COHORT_STORMS=n runs so many.
class Seeds {
 public:
  explicit Seeds(std::uint64_t count) : count_(from_environment("COHORT_STORMS", count)) {
    if (std::getenv("COHORT_SEED") == nullptr) return;
    first_ = from_environment("COHORT_SEED", 1);
    count_ = 1;
  }

  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t last() const { return first_ + count_ - 1; }

 private:
  static std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  }

  std::uint64_t first_ = 1;
  std::uint64_t count_;
};

}  // namespace cohort
